// SPDX-License-Identifier: Apache-2.0
// Memory runs out at every allocation of a call in turn, once or for good: the call succeeds or is
// CTN_OUT_OF_MEMORY with a message, the process goes on, and the next call is right.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "catenary/catenary.h"
#include "compiler/emit/emit.h"
#include "compiler/explain.h"
#include "ir/json.h"
#include "ir/reference/reference.h"
#include "ir/text/text.h"
#include "runtime/c_api/c_api.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/memory_tier.h"
#include "tests/support/cache_samples.h"
#include "tests/support/failing_memory.h"

#if defined(CATENARY_FAILING_MEMORY)

namespace {

using namespace catenary;

const std::string kText =
    "chain mlp[M in 1..64](input x: bf16[M, 128], weight wg: bf16[256, 128],\n"
    "    weight wu: bf16[256, 128], weight b: bf16[256], scalar alpha: f32) {\n"
    "  g = contract \"mk,nk->mn\"(x, wg)\n  u = contract \"mk,nk->mn\"(x, wu)\n"
    "  y = scale(mul(silu(add(g, b)), u), alpha)\n  return y: bf16\n}\n";

}  // namespace

TEST_CASE("a chain is parsed, printed and verified") {
  ctn_chain* chain = nullptr;
  sweep(
      "parse", [&] { return ctn_chain_parse(kText.data(), kText.size(), &chain); },
      [&] {
        ctn_chain_destroy(chain);
        chain = nullptr;
      });
  CHECK(chain == nullptr);
  REQUIRE(ctn_chain_parse(kText.data(), kText.size(), &chain) == CTN_OK);
  sweep(
      "verify", [&] { return ctn_chain_verify(chain); }, [] {});
  char* text = nullptr;
  sweep(
      "print", [&] { return ctn_chain_print(chain, &text); },
      [&] {
        CHECK(std::strstr(text, "chain mlp") == text);
        ctn_string_free(text);
        text = nullptr;
      });
  ctn_chain_destroy(chain);
}

TEST_CASE("a chain is built: a call that failed has not changed it") {
  ctn_chain* chain = nullptr;
  REQUIRE(ctn_chain_create("c", &chain) == CTN_OK);
  const int64_t dims[] = {4, 4};
  ctn_parameter parameter{};
  parameter.struct_size = sizeof parameter;
  parameter.dtype = CTN_F32;
  parameter.rank = 2;
  parameter.dims = dims;
  ctn_value x = 0;
  int declared = 0;
  sweep(
      "parameter", [&] { return ctn_chain_parameter(chain, &parameter, &x); },
      [&] { CHECK(x == declared++); });
  ctn_chain_destroy(chain);
}

TEST_CASE("every builder call: one that failed has added nothing") {
  ctn_chain* chain = nullptr;
  const std::string text =
      "chain c(input x: f32[4, 4], weight q: i8[4, 4], weight s: f32[4, 1], input b: bf16[4, 4]) "
      "{\n"
      "  y = relu(x)\n  return y: f32\n}\n";
  REQUIRE(ctn_chain_parse(text.data(), text.size(), &chain) == CTN_OK);
  ctn_value last = 4;
  ctn_value made = -1;
  const auto adds = [&](const std::string& what, const auto& call) {
    sweep(what, call, [&] { CHECK(made == ++last); });
  };
  sweep(
      "word", [&] { return ctn_chain_word(chain, "batch_invariant"); }, [] {});
  adds("constant", [&] { return ctn_chain_constant(chain, 0.5, nullptr, &made); });
  adds("contract",
       [&] { return ctn_chain_contract(chain, "mk,nk->mn", 0, 0, 0, nullptr, nullptr, &made); });
  const ctn_use uses[] = {{0, "mn"}, {4, nullptr}};
  adds("elementwise",
       [&] { return ctn_chain_elementwise(chain, "add", uses, 2, nullptr, 0, nullptr, &made); });
  adds("sum", [&] { return ctn_chain_sum(chain, "mn->n", 0, nullptr, &made); });
  adds("reduce", [&] { return ctn_chain_reduce(chain, "reduce_max", "mn->n", 0, nullptr, &made); });
  adds("cast", [&] { return ctn_chain_cast(chain, 0, CTN_BF16, nullptr, &made); });
  adds("dequant", [&] { return ctn_chain_dequant(chain, 1, 2, -1, 1, 4, nullptr, &made); });
  // The first contraction and the second.
  ctn_output output{};
  output.struct_size = sizeof output;
  output.value = 7;
  output.dtype = CTN_F32;
  sweep(
      "return", [&] { return ctn_chain_return(chain, &output); }, [&] { ++output.value; });
  ctn_chain_destroy(chain);
}

TEST_CASE("facts, parts for devices and gradients of a chain") {
  ctn_chain* chain = nullptr;
  REQUIRE(ctn_chain_parse(kText.data(), kText.size(), &chain) == CTN_OK);
  ctn_operands* operands = nullptr;
  sweep(
      "operands", [&] { return ctn_chain_operands(chain, &operands); },
      [&] { ctn_operands_destroy(operands); });
  char digest[65] = {};
  sweep(
      "digest", [&] { return ctn_chain_digest(chain, digest); },
      [&] { CHECK(std::strlen(digest) == 64); });
  char* factors = nullptr;
  sweep(
      "factors", [&] { return ctn_chain_factors(chain, &factors); },
      [&] { ctn_string_free(factors); });
  const int64_t parts[] = {1, 1, 1};
  ctn_chain* part = nullptr;
  sweep(
      "shard", [&] { return ctn_chain_shard(chain, parts, 3, &part); },
      [&] { ctn_chain_destroy(part); });
  ctn_gradient* gradient = nullptr;
  sweep(
      "gradient", [&] { return ctn_chain_gradient(chain, nullptr, &gradient); },
      [&] {
        size_t count = 0;
        CHECK(ctn_gradient_count(gradient, &count) == CTN_OK);
        CHECK(count == 3);
        ctn_gradient_destroy(gradient);
      },
      400);
  ctn_chain_destroy(chain);
}

TEST_CASE("an engine is created, and explains a chain") {
  ctn_engine_options options{};
  options.struct_size = sizeof options;
  options.cache_mode = CTN_CACHE_OFF;
  ctn_engine* engine = nullptr;
  sweep(
      "create", [&] { return ctn_engine_create(&options, &engine); },
      [&] {
        ctn_engine_destroy(engine);
        engine = nullptr;
      });
  REQUIRE(ctn_engine_create(&options, &engine) == CTN_OK);
  ctn_chain* chain = nullptr;
  REQUIRE(ctn_chain_parse(kText.data(), kText.size(), &chain) == CTN_OK);
  char* text = nullptr;
  sweep(
      "explain", [&] { return ctn_engine_explain(engine, chain, "a100", CTN_JSON, &text); },
      [&] { ctn_string_free(text); }, 100);
  ctn_chain_destroy(chain);
  ctn_engine_destroy(engine);
}

TEST_CASE("a weight is repacked") {
  const std::vector<unsigned char> weight(64 * 64, 1);
  int64_t bytes = 0;
  REQUIRE(ctn_packed_bytes(CTN_I8, 64, 64, &bytes) == CTN_OK);
  std::vector<unsigned char> packed(static_cast<size_t>(bytes));
  ctn_repack_args args{};
  args.struct_size = sizeof args;
  args.dtype = CTN_I8;
  args.rows = 64;
  args.columns = 64;
  args.weight = weight.data();
  args.weight_bytes = weight.size();
  args.packed = packed.data();
  args.packed_bytes = packed.size();
  sweep(
      "repack", [&] { return ctn_repack(&args); }, [&] { CHECK(packed[0] == 1); });
}

TEST_CASE("an error is reported: the status is its own or that of memory") {
  const std::string wrong = "chain c(input x: f32[4]) { y = relux(x) return y: f32 }";
  for (long n = 0; n < 200; ++n) {
    for (const bool for_good : {false, true}) {
      CAPTURE(n);
      ctn_chain* chain = nullptr;
      ctn_status status = CTN_OK;
      {
        const FailingMemory failing(n, for_good ? kForGood : n + 1);
        status = ctn_chain_parse(wrong.data(), wrong.size(), &chain);
      }
      CHECK((status == CTN_PARSE || status == CTN_OUT_OF_MEMORY));
      const char* word = status == CTN_PARSE ? "relux" : "memory";
      CHECK(std::strstr(ctn_last_error(), word) != nullptr);
    }
  }
}

TEST_CASE("the first error of a thread needs no memory") {
  bool right = false;
  std::thread([&] {
    const FailingMemory failing(0, kForGood);
    ctn_chain* chain = nullptr;
    const ctn_status status = ctn_chain_create("c", &chain);
    right = status == CTN_OUT_OF_MEMORY && std::strstr(ctn_last_error(), "out of host memory") &&
            ctn_last_error_line() == 0;
  }).join();
  CHECK(right);
}

TEST_CASE("a chain is planned and its sources are emitted") {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(kText))));
  const Target target = llvm::cantFail(find_target("h200"));
  std::string expected;
  std::string text;
  const auto plan_all = [&] {
    return c_api::guarded([&]() -> Error {
      Expected<Plan> plan = make_plan(chain, target);
      if (!plan) return plan.takeError();
      std::string all = explain_text(chain, *plan);
      const PlanBucket& bucket = plan->buckets[0];
      for (const KernelPlan& kernel : bucket.kernels) all += emit(chain, *plan, kernel).text();
      text = std::move(all);
      return Error::success();
    });
  };
  REQUIRE(plan_all() == CTN_OK);
  expected = text;
  // Planning makes a hundred thousand allocations: a sample of them, spread over all.
  long made = 0;
  {
    const FailingMemory counted(kForGood, kForGood);
    REQUIRE(plan_all() == CTN_OK);
    made = allocations;
  }
  const long step = made / 500 + 1;
  for (long n = 0; n < made; n += step) {
    for (const bool for_good : {false, true}) {
      CAPTURE(n);
      text.clear();
      ctn_status status = CTN_OK;
      {
        const FailingMemory failing(n, for_good ? kForGood : n + 1);
        status = plan_all();
      }
      CHECK((status == CTN_OK || status == CTN_OUT_OF_MEMORY));
      if (status == CTN_OK) CHECK(text == expected);
    }
  }
  CHECK(plan_all() == CTN_OK);
  CHECK(text == expected);
}

TEST_CASE("the reference evaluates a chain") {
  const std::string text =
      "chain c(input x: f32[2, 3], weight w: f32[2, 3]) {\n"
      "  y = relu(contract \"mk,nk->mn\"(x, w))\n  return y: f32 }";
  ctn_chain* chain = nullptr;
  REQUIRE(ctn_chain_parse(text.data(), text.size(), &chain) == CTN_OK);
  float x[] = {1, 2, 3, -1, -2, -3};
  float w[] = {1, 0, 1, 2, 2, 2};
  float y[4] = {};
  void* const tensors[] = {x, w, y};
  ctn_reference_args args{};
  args.struct_size = sizeof args;
  args.tensors = tensors;
  args.num_tensors = 3;
  args.threads = 1;
  sweep(
      "reference", [&] { return ctn_reference_run(chain, &args); },
      [&] {
        CHECK(y[0] == 4);
        CHECK(y[1] == 12);
        CHECK(y[2] == 0);
        y[0] = 0;
      });
  ctn_chain_destroy(chain);
}

TEST_CASE("the reference evaluates single elements") {
  const VerifiedChain chain = llvm::cantFail(
      verify(llvm::cantFail(parse("chain c(input x: f32[12, 3], weight w: f32[12, 3]) {\n"
                                  "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }"))));
  const std::vector<float> data(36, 1);
  ReferenceInputs inputs;
  for (ValueId id : chain.parameters()) {
    inputs.parameters.push_back({chain.info(id).type, data.data()});
  }
  double sum = 0;
  const auto all_elements = [&] {
    return c_api::guarded([&]() -> Error {
      sum = 0;
      Expected<Reference> reference = Reference::create(chain, inputs);
      if (!reference) return reference.takeError();
      for (i64 i = 0; i < 144; ++i) sum += reference->output_element(0, i).value;
      return Error::success();
    });
  };
  sweep("elements", all_elements, [&] { CHECK(sum == 3 * 144); });
}

TEST_CASE("the cache: a cubin that was compiled is returned, and the next look-up is right") {
  const test::Sample sample(1);
  const test::Sample other(2);
  for (long n = 0; n < 60; ++n) {
    CAPTURE(n);
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
    const auto get = [&](const test::Sample& wanted) {
      return cache.get(wanted.key, wanted.record,
                       [&]() -> Expected<Cubin> { return wanted.cubin; });
    };
    REQUIRE(!!get(other));
    try {
      const FailingMemory failing(n, n + 1);
      auto got = get(sample);
      if (!got) llvm::consumeError(got.takeError());
    } catch (const std::bad_alloc&) {
    }
    for (const test::Sample& wanted : {sample, other}) {
      auto got = get(wanted);
      REQUIRE(!!got);
      CHECK(**got == wanted.cubin);
    }
  }
}

TEST_CASE("the memory tier is unchanged if an insertion fails") {
  const test::Sample sample(1);
  const CubinId id{sample.key, sample.record};
  for (long n = 0; n < 4; ++n) {
    MemoryTier tier(1 << 20);
    auto cubin = std::make_shared<const Cubin>(sample.cubin);
    bool thrown = false;
    try {
      const FailingMemory failing(n, n + 1);
      tier.insert(id, cubin);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    CHECK((tier.find(id) == nullptr) == thrown);
    tier.insert(id, cubin);
    CHECK(tier.find(id) == cubin);
  }
}

#endif
