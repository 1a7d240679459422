// SPDX-License-Identifier: Apache-2.0
// The benchmark's parts that need no GPU: cases, statistics, batch and rotation sizes, sampling,
// ceilings, and the JSON that report.py reads. What leads up to the timing runs in the simulator,
// which keeps no time.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <set>

#include "bench/bench_command.h"
#include "bench/bench_options.h"
#include "bench/measure/run_case.h"
#include "tests/support/bench_session.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::bench;
using test::planned;
using test::shortest;
using test::simulated_session;
using test::verified;

namespace {

// Types of the parameters and the output by name, as the tensors of a case are bound.
std::map<std::string, TensorType> tensor_types(const VerifiedChain& chain) {
  std::map<std::string, TensorType> types;
  for (ValueId id : chain.parameters()) types[chain.value(id).name] = chain.info(id).type;
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    types[chain.value(chain.chain().outputs[i].value).name] =
        chain.output_type(static_cast<int>(i));
  }
  return types;
}

// One past the last element that a matrix of rows x columns, batched, touches.
i64 reach(i64 offset, i64 batch, i64 batch_stride, i64 rows, i64 row_stride, i64 columns) {
  return offset + (batch - 1) * batch_stride + (rows - 1) * row_stride + columns;
}

void check_gemm(const PeerGemm& product, const std::map<std::string, TensorType>& types) {
  const LtProblem& p = product.problem;
  REQUIRE(types.count(product.a));
  REQUIRE(types.count(product.b));
  REQUIRE(types.count(product.d));
  for (const std::string& name : {product.a, product.b}) CHECK(types.at(name).dtype == p.dtype);
  CHECK(types.at(product.d).dtype == p.d_dtype());
  CHECK((p.scales != LtScales::kNone) == !product.scale_a.empty());
  if (p.scales == LtScales::kBlocks) {
    // cuBLASLt's order, with rows of B's scales that are a multiple of 16 bytes.
    const TensorType& a = types.at(product.scale_a);
    const TensorType& b = types.at(product.scale_b);
    const i64 blocks = ceil_div(p.k, 128);
    CHECK(a.shape == llvm::SmallVector<Dim, 4>{{p.m, false}, {blocks, false}});
    CHECK(a.strides == llvm::SmallVector<i64, 4>{1, p.m});
    CHECK(b.shape == llvm::SmallVector<Dim, 4>{{ceil_div(p.n, 128), false}, {blocks, false}});
    CHECK(b.strides == contiguous_strides(b.shape));
    CHECK(blocks % 4 == 0);
  } else if (!product.scale_a.empty()) {
    CHECK(num_elements(types.at(product.scale_a)) == p.m);
    CHECK(num_elements(types.at(product.scale_b)) == p.n);
  }
  CHECK(reach(product.a_offset, p.batch, p.batch_a, p.a_m_major ? p.k : p.m, p.row_a,
              p.a_m_major ? p.m : p.k) <= num_elements(types.at(product.a)));
  CHECK(reach(product.b_offset, p.batch, p.batch_b, p.b_n_major ? p.k : p.n, p.row_b,
              p.b_n_major ? p.n : p.k) <= num_elements(types.at(product.b)));
  CHECK(reach(product.d_offset, p.batch, p.batch_d, p.m, p.row_d, p.n) <=
        num_elements(types.at(product.d)));
  CHECK((p.epilogue == LtEpilogue::kNone) == product.bias.empty());
  if (!product.bias.empty()) CHECK(num_elements(types.at(product.bias)) == p.n);
}

}  // namespace

TEST_CASE("every case verifies and plans for h200, fused and unfused") {
  std::set<std::string> names;
  for (const Case& spec : all_cases()) {
    INFO(spec.name);
    CHECK(names.insert(spec.name).second);
    const VerifiedChain chain = verified(spec.chain);
    const Plan plan = planned(chain);
    REQUIRE(plan.buckets.size() == 1);
    CHECK_FALSE(config_text(plan).empty());
    PlanOptions unfused;
    unfused.fuse = false;
    CHECK(planned(chain, unfused).buckets[0].kernels.size() >= plan.buckets[0].kernels.size());
    if (spec.flops == 0) {
      const bool rows = spec.group == "rows";
      CHECK(plan_family(plan) == (rows ? "reduce" : "pointwise"));
      CHECK(plan.buckets[0].kernels.size() <= (rows ? 3 : 1));
    } else {
      CHECK(plan_family(plan) != "pointwise");
      CHECK(plan_family(plan) != "reduce");
      CHECK(spec.peer.steps.size() >= 1);
    }
  }
}

TEST_CASE("a case's ragged ends fill its i32 parameter and end at its rows") {
  int ragged = 0;
  for (const Case& spec : all_cases()) {
    INFO(spec.name);
    const auto types = tensor_types(verified(spec.chain));
    CHECK(types.count("ends") == (spec.ends.empty() ? 0 : 1));
    if (spec.ends.empty()) continue;
    ++ragged;
    CHECK(types.at("ends").shape[0].size == static_cast<i64>(spec.ends.size()));
    CHECK(spec.ends.back() == types.at(types.count("x") ? "x" : "dy").shape[0].size);
    CHECK(std::is_sorted(spec.ends.begin(), spec.ends.end()));
  }
  CHECK(ragged == 48);
}

namespace {

// The steps of one peer of `spec`, each over tensors that are there, in order.
void check_peer(const Case& spec, const Peer& peer) {
  INFO(spec.name << ": " << peer.name);
  const VerifiedChain whole = verified(spec.chain);
  auto types = tensor_types(whole);
  for (const PeerScratch& scratch : peer.scratch) {
    CHECK(types.emplace(scratch.name, scratch.type).second);
  }
  double flops = 0;
  std::set<std::string> written;  // scratch tensors so far; weights of the peer's own are data
  for (const PeerScratch& scratch : peer.scratch) {
    if (peer.own_weights) written.insert(scratch.name);
  }
  const auto reads = [&](const std::string& name) {
    const bool scratch = std::any_of(peer.scratch.begin(), peer.scratch.end(),
                                     [&](const PeerScratch& s) { return s.name == name; });
    CHECK_MESSAGE(!(scratch && written.count(name) == 0), name);
  };
  for (const PeerStep& step : peer.steps) {
    if (const auto* product = std::get_if<PeerGemm>(&step)) {
      check_gemm(*product, types);
      const LtProblem& p = product->problem;
      flops += 2.0 * p.batch * p.m * p.n * p.k;
      reads(product->a);
      reads(product->b);
      written.insert(product->d);
      continue;
    }
    if (const auto* zeros = std::get_if<PeerZeros>(&step)) {
      CHECK(zeros->offset + zeros->elements <= num_elements(types.at(zeros->d)));
      continue;
    }
    const VerifiedChain chain = verified(std::get<PeerPointwise>(step).chain);
    const Plan plan = planned(chain);
    CHECK(plan.buckets[0].kernels.size() == 1);
    CHECK(plan_family(plan) == "pointwise");
    for (const auto& [name, type] : tensor_types(chain)) {
      REQUIRE(types.count(name));
      CHECK(types.at(name).shape == type.shape);
      CHECK(types.at(name).dtype == type.dtype);
    }
    for (ValueId id : chain.parameters()) reads(chain.value(id).name);
    for (const Output& output : chain.chain().outputs)
      written.insert(chain.value(output.value).name);
  }
  CHECK(flops == doctest::Approx(spec.flops));
  // Weights of its own: another arrangement of the outputs.
  for (const Output& output : whole.chain().outputs) {
    const std::string& name = whole.value(output.value).name;
    CHECK_MESSAGE((written.count(name) == 1 || peer.own_weights), name);
  }
}

}  // namespace

TEST_CASE("peers compute as many flops, from the case's tensors, inside their bounds") {
  int seconds = 0;
  for (const Case& spec : all_cases()) {
    if (!spec.peer.name.empty()) check_peer(spec, spec.peer);
    if (spec.second_peer.name.empty()) continue;
    check_peer(spec, spec.second_peer);
    ++seconds;
  }
  CHECK(seconds == 38);
}

TEST_CASE("a case's chain without its epilogue uses a subset of its tensors and the same output") {
  int cases = 0;
  for (const Case& spec : all_cases()) {
    if (spec.no_epilogue.empty()) continue;
    ++cases;
    INFO(spec.name);
    const auto types = tensor_types(verified(spec.chain));
    for (const auto& [name, type] : tensor_types(verified(spec.no_epilogue))) {
      REQUIRE(types.count(name));
      CHECK(types.at(name) == type);
    }
  }
  CHECK(cases > 0);
}

TEST_CASE("patterns choose cases") {
  CHECK(matches("gemm/1x2x3/bf16", ""));
  CHECK(matches("gemm/1x2x3/bf16", "gemm/*"));
  CHECK(matches("gemm/1x2x3/bf16", "moe*, gemm*bf16"));
  CHECK_FALSE(matches("gemm/1x2x3/bf16", "moe*,swiglu*"));
  CHECK_FALSE(matches("gemm_bias/1x2x3/bf16", "gemm/*"));
}

TEST_CASE("quantiles") {
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  const Spread spread = spread_of({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110});
  CHECK(spread.p10 == doctest::Approx(20));
  CHECK(spread.median == doctest::Approx(60));
  CHECK(spread.p90 == doctest::Approx(100));
  CHECK(quantile({1, 2}, -1) == 1);
  CHECK(quantile({1, 2}, 2) == 2);
}

TEST_CASE("batches are filled and rotations exceed the L2 twice") {
  CHECK(batch_units(2000, 100, 1) == 20);
  CHECK(batch_units(2000, 5000, 1) == 1);
  CHECK(batch_units(2000, 1.5, 100) == 14);
  CHECK(batch_units(2000, 0, 1) == 10000);
  constexpr i64 mib = i64{1} << 20;
  CHECK(rotation_copies(16 * mib, 32 * mib, 60 * mib, 4096 * mib) == 8);
  CHECK(rotation_copies(1000 * mib, 2000 * mib, 60 * mib, 4096 * mib) == 2);
  CHECK(rotation_copies(1, 2, 60 * mib, 4096 * mib) == 128);
  CHECK(rotation_copies(16 * mib, 1024 * mib, 60 * mib, 4096 * mib) == 4);
}

TEST_CASE("sampled elements are distinct, in range and hold the corners") {
  TensorType type;
  type.shape = {Dim{3, false}, Dim{500, false}, Dim{700, false}};
  const std::vector<i64> indices = sample_indices(type, 320, 5);
  const i64 total = 3 * 500 * 700;
  CHECK(indices.size() >= 320);
  CHECK(std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<>()) ==
        indices.end());
  CHECK(indices.front() == 0);
  CHECK(indices.back() == total - 1);
  for (const i64 corner : {i64{699}, i64{499 * 700}, total - 700, total - 500 * 700}) {
    CHECK(std::binary_search(indices.begin(), indices.end(), corner));
  }
  CHECK(indices == sample_indices(type, 320, 5));
  type.shape = {Dim{1, false}, Dim{3, false}};
  CHECK(sample_indices(type, 320, 5) == std::vector<i64>{0, 1, 2});
  type.shape = {Dim{0, false}, Dim{3, false}};
  CHECK(sample_indices(type, 320, 5).empty());
}

TEST_CASE("a random block repeats from its phase on, and does not line up with rows") {
  const std::byte block[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::vector<std::byte> out(7);
  RandomPool::repeat(block, 5, out.data(), 7);
  const std::vector<std::byte> want{std::byte{3}, std::byte{1}, std::byte{2}, std::byte{3},
                                    std::byte{1}, std::byte{2}, std::byte{3}};
  CHECK(out == want);
}

TEST_CASE("the slower ceiling bounds") {
  const Ceilings ceilings{4.0, 800.0};
  const Bound memory = ceiling_bound(ceilings, 4e9, 0, 1);
  CHECK(memory.us == doctest::Approx(1000));
  CHECK(std::string(memory.by) == "copy");
  const Bound math = ceiling_bound(ceilings, 4e6, 8e11, 1);
  CHECK(math.us == doctest::Approx(1000));
  CHECK(std::string(math.by) == "gemm");
  CHECK(ceiling_bound(ceilings, 4e6, 8e11, 0.5).us == doctest::Approx(2000));
  const Spread ten_us{10, 10, 10};
  CHECK(copy_share(ceilings, 3e7, ten_us).value() == doctest::Approx(0.75));
  CHECK_FALSE(copy_share(ceilings, 3e7, std::nullopt));
  CHECK_FALSE(copy_share({}, 3e7, ten_us));
  // Without the product's rate nothing is claimed of a contraction.
  CHECK(ceiling_bound({4.0, 0}, 4e6, 8e11, 1).us == 0);
}

TEST_CASE("the record's JSON has the fields that readers rely on") {
  Record record;
  record.device = "NVIDIA H200";
  record.gpu = "h200";
  record.driver = "580.159";
  record.cuda = "13.0";
  record.commit = "abc";
  record.date = utc_date();
  record.seed = 7;
  record.ceilings = {4.2754, 803.4};
  Row row;
  row.name = "gemm/1x2x3/bf16";
  row.verified = true;
  row.worst_error_ratio = 0.25;
  row.us = Spread{123.456789, 120, 130};
  row.peer = "cuBLASLt best";
  row.peer_us = Spread{61.7, 61, 62};
  row.ratio = 0.5;
  row.pdl_us = Spread{100, 99, 101};
  row.pdl_ratio = 0.617;
  row.pdl_copy_share = 0.9;
  Row wrong;
  wrong.name = "gemm/4x5x6/bf16";
  record.rows = {row, wrong};
  const test::TempDir folder;
  const std::string path = folder / "results/h200/cases.json";
  REQUIRE_FALSE(static_cast<bool>(write_record(record, path)));
  std::FILE* file = std::fopen(path.c_str(), "r");
  REQUIRE(file != nullptr);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  auto json = llvm::json::parse(text);
  REQUIRE(static_cast<bool>(json));
  const llvm::json::Object& top = *json->getAsObject();
  for (const char* key :
       {"device", "driver", "cuda", "commit", "date", "seed", "ceilings", "rows"}) {
    INFO(key);
    CHECK(top.get(key) != nullptr);
  }
  CHECK(top.getInteger("seed").getValueOr(0) == 7);
  CHECK(top.getObject("ceilings")->getNumber("copy_tbs").getValueOr(0) == doctest::Approx(4.2754));
  CHECK(top.getObject("ceilings")->getNumber("gemm_tflops").getValueOr(0) ==
        doctest::Approx(803.4));
  const llvm::json::Array& rows = *top.getArray("rows");
  REQUIRE(rows.size() == 2);
  for (const char* key : {"case", "family", "dtype", "shape", "us", "of_ceiling", "peer", "peer_us",
                          "ratio", "verified", "worst_error_ratio", "bytes", "pdl_us", "pdl_ratio",
                          "copy_share", "pdl_copy_share", "no_epilogue_pdl_us"}) {
    INFO(key);
    CHECK(rows[0].getAsObject()->get(key) != nullptr);
    CHECK(rows[1].getAsObject()->get(key) != nullptr);
  }
  CHECK(rows[0].getAsObject()->getNumber("us").getValueOr(0) == doctest::Approx(123.46));
  CHECK(rows[0].getAsObject()->getBoolean("verified").getValueOr(false));
  CHECK(rows[1].getAsObject()->get("us")->kind() == llvm::json::Value::Null);
  CHECK(rows[1].getAsObject()->getBoolean("verified").getValueOr(true) == false);
}

TEST_CASE("a record that cannot be written is an error that names the path") {
  Error error = write_record(Record{}, "/proc/nowhere/record.json");
  const ErrorReport report = take_report(std::move(error));
  CHECK(report.code == ErrorCode::kIo);
  CHECK(report.message.find("/proc/nowhere/record.json") != std::string::npos);
}

TEST_CASE("a wrong row is told apart from a failed one and is not timed") {
  Row row;
  row.name = "gemm/1x2x3/bf16";
  row.note = "3 mismatches";
  CHECK(table_line(row).find("WRONG: 3 mismatches") != std::string::npos);
  row.error = "no tile fits";
  CHECK(table_line(row).find("failed: no tile fits") != std::string::npos);
}

TEST_CASE("a chain of several kernels is verified with PDL too") {
  const std::unique_ptr<Session> session = simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  Case spec;
  spec.name = "mlp/3x64x128/bf16";
  spec.copies = 3;
  spec.chain =
      "chain mlp(input x: bf16[3, 128], weight wg: bf16[64, 128], weight wu: bf16[64, 128], "
      "weight wd: bf16[128, 64]) {\n"
      "  g = contract \"mk,nk->mn\"(x, wg)\n  u = contract \"mk,nk->mn\"(x, wu)\n"
      "  h = cast(mul(silu(g), u), bf16)\n  y = contract \"mk,nk->mn\"(h, wd)\n"
      "  return y: bf16\n}\n";
  spec.no_epilogue =
      "chain no_epilogue(input x: bf16[3, 128], weight wg: bf16[64, 128], weight wd: bf16[128, "
      "64]) {\n"
      "  g = cast(contract \"mk,nk->mn\"(x, wg), bf16)\n"
      "  y = contract \"mk,nk->mn\"(g, wd)\n  return y: bf16\n}\n";
  CaseOptions options;
  options.timing = shortest();
  RandomPool pool(3);
  Expected<Row> row = run_case(*session, nullptr, pool, {}, spec, options);
  REQUIRE(row);
  CAPTURE(row->error);
  CAPTURE(row->note);
  CHECK(row->verified);
  CHECK(row->error.empty());
  CHECK(row->kernels >= 2);
  CHECK(row->us.has_value());
  CHECK(row->pdl_us.has_value());
  CHECK(row->unfused_us.has_value());
  CHECK(row->no_epilogue_us.has_value());
  CHECK(row->no_epilogue_pdl_us.has_value());
  CHECK(row->bytes == 2 * (3 * 128 + 3 * 64 * 128 + 3 * 128));
}

TEST_CASE("bad use of the benchmark ends with its exit code") {
  BenchOptions options;
  options.cases = "no-such-case*";
  CHECK(run_bench(options) == 2);
  options.cases = "";
  if (const std::unique_ptr<Session> session = simulated_session()) CHECK(run_bench(options) == 2);
  options.compile = true;
  options.target = "h9000";
  CHECK(run_bench(options) == 2);
}

TEST_CASE("a shard that is none is refused, and so is one of nothing") {
  for (const char* shard : {"5/4", "0/4", "-1/4", "1/65", "1", "1/", "1/2x", "a/b", "1/2/3"}) {
    CAPTURE(shard);
    CLI::App app;
    int code = 0;
    add_bench(app, code, {});
    CHECK_THROWS_AS(app.parse(fmt::format("bench --sweep small --shard {}", shard)),
                    CLI::ValidationError);
  }
  CLI::App app;
  int code = 0;
  add_bench(app, code, {});
  CHECK_THROWS_AS(app.parse("bench --shard 1/2"), CLI::RequiresError);
}
