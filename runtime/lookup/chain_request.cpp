// SPDX-License-Identifier: Apache-2.0
#include "runtime/lookup/chain_request.h"

#include <cmath>

#include "compiler/compile/host_compiler.h"
#include "ir/json.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

namespace json = llvm::json;

// Members of a line that hold a size or a rate of the GPU.
template <class T, class Field>
void each_size(T& target, Field field) {
  field("smem_per_sm", target.smem_per_sm);
  field("smem_per_cta", target.smem_per_cta);
  field("l2_bytes", target.l2_bytes);
}
template <class T, class Field>
void each_rate(T& target, Field field) {
  field("clock_ghz", target.clock_ghz);
  field("dram_gbs", target.dram_gbs);
  field("tensor_tflops", target.tensor_tflops);
  field("tf32_tflops", target.tf32_tflops);
  field("f32_tflops", target.f32_tflops);
}

json::Object target_json(const Target& target) {
  json::Object object{{"name", target.name}, {"arch", target.arch}, {"sm_count", target.sm_count}};
  each_size(target, [&](const char* name, i64 value) { object[name] = value; });
  each_rate(target, [&](const char* name, double value) { object[name] = value; });
  return object;
}

bool read_target(const json::Object* object, Target& target) {
  if (object == nullptr) return false;
  const auto name = object->getString("name");
  const auto arch = object->getString("arch");
  const auto sms = object->getInteger("sm_count");
  if (!name || !arch || !sms || *sms < 1 || *sms > 1 << 16) return false;
  target.name = name->str();
  target.arch = arch->str();
  target.sm_count = static_cast<int>(*sms);
  bool ok = target.compute_capability() >= 80 && target.compute_capability() < 1000;
  each_size(target, [&](const char* member, i64& value) {
    value = object->getInteger(member).getValueOr(-1);
    ok = ok && value > 0 && value <= i64{1} << 40;
  });
  each_rate(target, [&](const char* member, double& value) {
    value = object->getNumber(member).getValueOr(-1);
    ok = ok && std::isfinite(value) && value > 0 && value < 1e9;
  });
  return ok;
}

bool read_options(const json::Object* object, ChainOptions& options) {
  if (object == nullptr) return false;
  const auto fuse = object->getBoolean("fuse");
  const auto split_k = object->getInteger("split_k");
  const auto tile = object->getString("force_tile");
  const auto spills = object->getBoolean("allow_spills");
  if (!fuse || !split_k || *split_k < 0 || *split_k > 64 || !tile || !spills) return false;
  options = {*fuse, static_cast<int>(*split_k), tile->str(), *spills,
             object->getBoolean("batch_invariant").getValueOr(false)};
  return true;
}

}  // namespace

std::string ChainRequest::arch() const { return (host ? kHostArch.str() : "") + target.arch; }

ChainRequest make_request(VerifiedChain chain, Target target, bool host, ChainOptions options) {
  std::string canonical = canonical_text(chain);
  ChainRequest request{std::move(chain),   std::move(target),    host,
                       std::move(options), std::move(canonical), {}};
  request.key = chain_key(request.canonical, request.arch(), request.options);
  return request;
}

std::vector<std::string> archs_for(const ChainRequest& request) {
  const std::string prefix = request.host ? kHostArch.str() : "";
  const int capability = request.target.compute_capability();
  std::vector<std::string> archs = {request.arch()};
  for (int older = capability; older >= capability / 10 * 10; --older) {
    const std::string arch = fmt::format("sm_{}", older);
    if (arch != request.target.arch && arch_runs_on(arch, capability))
      archs.push_back(prefix + arch);
  }
  return archs;
}

std::string request_line(const ChainRequest& request) {
  const ChainOptions& options = request.options;
  json::Object chosen{{"fuse", options.fuse},
                      {"split_k", options.split_k},
                      {"force_tile", json::fixUTF8(options.force_tile)},
                      {"allow_spills", options.allow_spills}};
  if (options.batch_invariant) chosen["batch_invariant"] = true;
  return json_text(json::Object{{"chain", print(request.chain.chain())},
                                {"simulator", request.host},
                                {"target", target_json(request.target)},
                                {"options", std::move(chosen)}},
                   0);
}

Expected<ChainRequest> parse_request_line(llvm::StringRef line) {
  Expected<json::Value> value = parse_json(line);
  if (!value) {
    return make_error(ErrorCode::kParse, "{}", take_report(value.takeError()).message);
  }
  const json::Object* object = value->getAsObject();
  Target target;
  ChainOptions options;
  if (object == nullptr || !object->getString("chain") || !object->getBoolean("simulator") ||
      !read_target(object->getObject("target"), target) ||
      !read_options(object->getObject("options"), options)) {
    return make_error(ErrorCode::kParse,
                      "it is no line of a trace: members chain, simulator, target and options, as "
                      "CATENARY_TRACE writes them");
  }
  Expected<Chain> chain = parse(*object->getString("chain"));
  if (!chain) return chain.takeError();
  Expected<VerifiedChain> verified = verify(std::move(*chain));
  if (!verified) return verified.takeError();
  return make_request(std::move(*verified), std::move(target), *object->getBoolean("simulator"),
                      std::move(options));
}

}  // namespace catenary
