# SPDX-License-Identifier: Apache-2.0
"""Engines: options, the device of a process, plans and kernels, packs and the strict mode, the log."""

import gc
import inspect
import json
import threading
import weakref

import pytest
from conftest import Meeting, in_threads, make_linear, run_python

import catenary as ctn
from catenary import _native
from catenary._native import lib


def test_prepare_returns_one_executable_per_chain(engine):
    a, b = make_linear(), make_linear()
    assert engine.prepare(a) is engine.prepare(b) is not engine.prepare(make_linear(name="other"))


def test_plan_is_text_data_and_a_table(engine):
    plan = make_linear().explain("sm_80")
    assert isinstance(plan, str) and repr(plan) == str(plan) and "kernel 0:" in plan and "sm_80" in plan
    kernel = plan.data["buckets"][0]["kernels"][0]
    table = plan._repr_html_()
    for part in ("<table>", kernel["symbol"], kernel["family"], "µs", "<pre>"):
        assert part in table
    run = engine.prepare(make_linear())
    assert "kernel 0:" in run.explain() and json.dumps(run.explain().data)


def test_plan_escapes_what_a_page_would_run():
    plan = ctn.Plan("<script>", {"buckets": []})
    assert "<script>" not in plan._repr_html_()


def test_kernels_have_source_and_code(engine):
    run = engine.prepare(make_linear())
    (kernel,) = run.kernels
    assert 'extern "C"' in kernel.source and kernel.name in kernel.source and kernel.cubin[:4] == b"\x7fELF"
    assert kernel.threads % 32 == 0 and kernel.smem_bytes >= 0 and kernel.name in repr(kernel)
    assert run.compiled.chain.digest == make_linear().digest


@pytest.mark.parametrize(
    "options, words",
    [
        ({"device": "gpu"}, "device is 'gpu': use 'cuda'"),
        ({"cache": "on"}, "cache is 'on': use one of 'rw', 'ro', 'off'"),
        ({"jit": "never"}, "jit is 'never'"),
        ({"jit": "bogus", "strict": True}, "jit is 'bogus'"),
        ({"jit": "auto", "strict": True}, "strict is True, which is jit='off', and jit is 'auto': leave one of them"),
        ({"helper": "yes"}, "helper is 'yes'"),
        ({"split_k": 17}, "split_k is 17"),
        ({"helper_seconds": -1}, "helper_seconds is -1"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, words):
    with pytest.raises(ctn.ArgumentError, match=words):
        ctn.Engine(**options)


def test_unfused_and_forced_plans():
    chain = make_linear()
    fused, unfused = (len(ctn.Engine(unfused=u).explain(chain).data["buckets"][0]["kernels"]) for u in (False, True))
    assert fused == 1 < unfused


def test_every_option_of_the_c_abi_has_an_argument():
    names = {name for name, _ in _native.EngineOptions._fields_} - {"struct_size", "user", "backend", "cache_mode"}
    assert names <= inspect.signature(ctn.Engine).parameters.keys()


ROWS = """chain rows[M in 1..64](input x: f16[M, 512], weight w: f16[1024, 512]) {
  y = contract "mk,nk->mn"(x, w) return y: f16
}"""


def test_batch_invariant_plans():
    chain = ctn.Chain.parse(ROWS)
    invariant = ctn.Engine(batch_invariant=True).explain(chain)
    assert "one order of K for every M" in " ".join(invariant.split()) and "skinny" not in str(invariant)
    assert "skinny" in str(ctn.Engine().explain(chain))
    word = ctn.Chain.parse(ROWS.replace("](", "] batch_invariant (", 1))
    plans = [engine.explain(word).data["buckets"] for engine in (ctn.Engine(), ctn.Engine(batch_invariant=True))]
    assert plans[0] == plans[1] == invariant.data["buckets"]


NORM = """chain norm(input x: bf16[8, 1024], weight w: bf16[2048, 1024]) {
  s = rsqrt(add(mul(sum "mk->m"(square(x)), 0.0009765625), 0.00001))
  n = cast(mul(x @ "mk", s @ "m"), bf16)
  y = contract "mk,nk->mn"(n, w) return y: f32
}"""


def test_algebraic_norms():
    chain = ctn.Chain.parse(NORM)
    word = ctn.Chain.parse(NORM.replace("norm(", "norm algebraic_norms ("))
    plain, option = ctn.Engine(), ctn.Engine(algebraic_norms=True)
    assert "algebraic" not in str(plain.explain(chain))
    assert "algebraic form of norms" in str(plain.explain(word))
    plans = [engine.explain(c).data["buckets"] for engine, c in ((plain, word), (option, chain), (option, word))]
    assert plans[0] == plans[1] == plans[2] and plans[0][0]["algebraic"]


def test_a_pinned_build_of_nvrtc():
    code = """
import catenary as ctn
for build in ("nvrtc 0.0.0 CL-0", ""):
    engine = ctn.Engine(cache="off", nvrtc_build=build)
    try:
        engine.compile(ctn.Chain.parse('chain c(input x: f32[4]) { y = relu(x) return y: f32 }'), "sm_90a")
    except ctn.CompileError as error:
        print(error.code, error)
"""
    pinned, *none = run_python(code, CATENARY_DEVICE="", CATENARY_NVRTC_BUILD="").splitlines()
    assert pinned.startswith("nvrtc_missing ")
    if none:
        pytest.skip("there is no NVRTC that could be of another build")
    assert "pinned to nvrtc 0.0.0 CL-0" in pinned


def test_a_target_that_is_none():
    with pytest.raises(ctn.Error, match="h20000"):
        make_linear().explain("h20000")


def test_what_no_kernel_computes_has_its_place(engine):
    """Also a chain that kernels could only compute with other strides."""
    dtypes = "chain c(input x: e4m3[64, 64], weight w: e4m3[64, 64]) {\n"
    dtypes += '  # fp8\n  y = relu(contract "mk,nk->mn"(x, w))\n  return y: bf16\n}'
    loops = "chain c(input x: f32[2, 3, 2, 4, 4] strides[1024, 64, 512, 8, 1], weight w: f32[2, 3, 2, 4, 4]) {\n"
    loops += '  y = contract "abckm,abckn->mn"(x, w)\n  return y: f32\n}'
    for text, target, place in ((dtypes, "sm_80", (3, 12)), (loops, "h200", (2, 3))):
        chain = ctn.Chain.parse(text)
        for call in (chain.explain, lambda target, chain=chain: engine.compile(chain, target)):
            with pytest.raises(ctn.UnsupportedError) as caught:
                call(target)
            assert (caught.value.line, caught.value.column, caught.value.code) == (*place, "unsupported")
    built = ctn.Chain("built")  # has no text
    x, w = (built.input(name, ctn.e4m3, (64, 64)) for name in "xw")
    built.output(ctn.linear(x, w, name="y"), ctn.bf16)
    with pytest.raises(ctn.UnsupportedError, match="no kernel family computes 'y'") as caught:
        built.explain("sm_80")
    assert caught.value.line is None


def test_packs_and_the_strict_mode(tmp_path, engine):
    known, other = make_linear(), make_linear(n=40)
    path = tmp_path / "layers.pack"
    writer = ctn.PackWriter(with_sources=True)
    compiled = engine.prepare(known).compiled
    writer.add(compiled)
    writer.finish(path)
    pack = ctn.Pack(path, verify_all=True)
    (entry,) = pack
    assert (len(pack), entry.chain, entry.num_kernels) == (1, "layer", 1) and pack.info["entries"]
    with pytest.raises(IndexError):
        pack[1]
    strict = ctn.Engine(packs=[path], strict=True)
    assert strict.prepare(known).kernels[0].cubin == compiled.kernels[0].cubin
    with pytest.raises(ctn.PackError, match="nearest|differ") as caught:
        strict.prepare(other)
    target = "the simulator of sm_90a" if ctn.is_simulator() else ")"
    assert caught.value.code == "pack_miss" and f"{target} is in no pack" in str(caught.value)
    assert json.loads(strict.missed.splitlines()[0])
    in_memory = ctn.Pack(path.read_bytes())
    assert engine.load(in_memory.compiled(0)).chain.digest == known.digest
    compiled.save(tmp_path / "one.pack")
    assert ctn.Compiled.open(tmp_path / "one.pack").chain.text == known.text


def test_threads_get_one_default_engine(monkeypatch):
    making = Meeting()

    class Engine(ctn.Engine):
        def __init__(self):
            with making:
                super().__init__()

    monkeypatch.setattr("catenary.engine.Engine", Engine)
    monkeypatch.setattr("catenary.engine._default", None)
    one, other = in_threads(2, ctn.default_engine)
    assert one is other


def test_misses_are_read_while_another_thread_opens_a_device(monkeypatch):
    engine = ctn.Engine()

    def text(*arguments):
        for backend in (1, 2):
            engine._handle(backend)
        return "line\n"

    monkeypatch.setattr("catenary.engine.text", text)
    assert engine.missed == "line\n"


def test_a_damaged_pack(tmp_path, engine):
    path = tmp_path / "layers.pack"
    engine.prepare(make_linear()).compiled.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ctn.PackError):
        ctn.Pack(path, verify_all=True)
    with pytest.raises(ctn.PackError, match="SHA-256"):
        ctn.Pack(path, expected_sha256="0" * 64)
    with pytest.raises(ctn.Error) as caught:
        ctn.Engine(packs=[tmp_path / "none.pack"])
    assert caught.value.code == "io"


def test_log_goes_to_a_function_and_to_logging(caplog, tmp_path):
    lines = []
    ctn.set_log(lambda level, line: lines.append((level, line)), "debug")
    try:
        engine = ctn.Engine(cache_directory=tmp_path)
        engine.prepare(make_linear(n=48))
        assert any("layer" in line for _, line in lines) and {level for level, _ in lines} >= {"info", "debug"}
        count = len(lines)
        with caplog.at_level("INFO", "catenary"):
            ctn.set_log(level="info")
            engine.prepare(make_linear(n=56))
        assert len(lines) == count and any("layer" in record.message for record in caplog.records)
    finally:
        ctn.reset_log()
    with pytest.raises(ctn.ArgumentError, match="level is 'all'"):
        ctn.set_log(level="all")


def test_warnings_go_to_the_engine_s_function(tmp_path):
    lines = []
    (tmp_path / "file").write_text("")
    engine = ctn.Engine(cache_directory=tmp_path / "file" / "cache", warn=lines.append)
    engine.prepare(make_linear(n=64))
    for backend in (1, 2):  # both are open where the process goes on without a GPU
        engine._handle(backend)
    assert len(lines) == 1 and "cache" in lines[0]


def test_the_function_of_warnings_lives_as_long_as_the_handle(monkeypatch):
    alive = []

    def destroy(pointer, plain=lib.ctn_engine_destroy):
        alive.append(function() is not None)
        plain(pointer)

    monkeypatch.setattr(lib, "ctn_engine_destroy", destroy)
    engine = ctn.Engine(warn=print)
    function = weakref.ref(engine._warn)
    del engine
    gc.collect()
    assert alive == [True] and function() is None


NO_GPU = "import catenary as ctn; chain = ctn.Chain.parse('chain c(input x: f32[4]) { y = relu(x) return y: f32 }');"


@pytest.mark.skipif(not ctn.is_simulator() and ctn.device_count() > 0, reason="there is a GPU")
def test_without_a_gpu():
    assert run_python(NO_GPU + "print(ctn.Engine().device)", CATENARY_DEVICE="").strip() == "sim"
    code = (
        NO_GPU
        + """
try:
    ctn.Engine(device='cuda').prepare(chain)
except ctn.DeviceError as error:
    print(error.code)
engine = ctn.Engine(device='sim'); engine.prepare(chain)
try:
    ctn.Engine(device='cuda:0').prepare(chain)
except ctn.ArgumentError as error:
    print(error)
"""
    )
    code_line, sentence = run_python(code, CATENARY_DEVICE="").splitlines()
    assert code_line == "driver_missing" and "the simulator is the device of this process" in sentence


def test_a_log_function_that_uses_the_default_engine():
    code = """
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
import catenary as ctn
chain = ctn.Chain.parse('chain c(input x: f32[4]) { y = relu(x) return y: f32 }')
plans = []
ctn.set_log(lambda level, line: plans.append(chain.explain()), "debug")
plans.append(chain.explain())
engine = ctn.Engine()
ctn.set_log(lambda level, line: plans.append(engine.explain(chain)), "debug")
engine.prepare(chain)
for backend in (1, 2):
    engine._handle(backend)
print(len(set(plans)), ctn.default_engine() is ctn.default_engine())
"""
    assert run_python(code).split() == ["1", "True"]


def test_packs_that_are_added_while_a_handle_is_made(monkeypatch, tmp_path, engine):
    chain = make_linear(n=72)
    engine.prepare(chain).compiled.save(tmp_path / "one.pack")
    strict = ctn.Engine(strict=True, packs=[tmp_path / "one.pack"])
    made = []

    def create(*arguments, plain=lib.ctn_engine_create):
        if not made:
            made.append(threading.Thread(target=strict.add_pack, args=(tmp_path / "one.pack",), daemon=True))
            made[0].start()
            made[0].join(20)
            assert not made[0].is_alive()
        return plain(*arguments)

    strict._handles.clear()
    monkeypatch.setattr(lib, "ctn_engine_create", create)
    added = []

    def add(*arguments, plain=lib.ctn_engine_add_pack):
        added.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(lib, "ctn_engine_add_pack", add)
    assert strict.prepare(chain).kernels and len(strict._packs) == len(added) == 2


def test_what_is_no_function_of_the_log():
    with pytest.raises(ctn.ArgumentTypeError, match="callback is 'info': pass a function .*, or a level by name"):
        ctn.set_log("info")


@pytest.mark.skipif(not ctn.is_simulator() and ctn.device_count() > 0, reason="there is a GPU")
def test_machine_code_for_gpus_after_the_process_went_on_without_one():
    code = (
        NO_GPU
        + """
def arch(engine):
    try:
        return engine.compile(chain, 'sm_90a').kernels[0].arch
    except ctn.CompileError as error:
        return error.code
engine = ctn.Engine(cache='off'); engine.prepare(chain)
engines = [engine, ctn.Engine(cache='off'), ctn.Engine(device='sim')]
print(engine.compile(chain).kernels[0].arch, *map(arch, engines))
"""
    )
    host, *gpu, asked = run_python(code, CATENARY_DEVICE="").split()
    assert host == asked == "host:sm_90a" and set(gpu) <= {"sm_90a", "nvrtc_missing"}
    for line in ("", "ctn.use_simulator();"):
        found = run_python(code.replace("engine = ", line + "engine = "), CATENARY_DEVICE="" if line else "sim").split()
        assert set(found) == {"host:sm_90a"}


def test_machine_code_for_gpus_needs_none():
    code = (
        NO_GPU
        + """
engine = ctn.Engine(cache='off')
try:
    print(engine.compile(chain, 'sm_90a').kernels[0].arch)
except ctn.CompileError as error:
    print(error.code)
"""
    )
    assert run_python(code, CATENARY_DEVICE="").strip() in ("sm_90a", "nvrtc_missing")
    assert run_python(code.replace("cache='off'", "cache='off', device='sim'")).strip() == "host:sm_90a"
