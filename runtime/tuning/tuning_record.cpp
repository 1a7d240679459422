// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/tuning_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"

namespace catenary {
namespace {

namespace json = llvm::json;

constexpr llvm::StringLiteral kMagic = "catenary-tuning 2 ";
constexpr i64 kMaxSplitK = 1 << 16;

std::string hex_digest(llvm::StringRef text) {
  llvm::SHA256 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

json::Object id_json(const CandidateId& id) {
  return json::Object{{"family", id.family}, {"tile", id.tile}, {"split_k", id.split_k}};
}

bool parse_id(const json::Object* object, CandidateId& id) {
  if (object == nullptr) return false;
  const auto family = object->getString("family");
  const auto tile = object->getString("tile");
  const auto split = object->getInteger("split_k");
  if (!family || !tile || !split || *split < 0 || *split > kMaxSplitK) return false;
  id = {family->str(), tile->str(), static_cast<int>(*split)};
  return true;
}

json::Value candidate_json(const TunedCandidate& c) {
  json::Object object = id_json(c.id);
  object["predicted_us"] = c.predicted_us;
  if (c.median_us) {
    object["us"] = *c.median_us;
    object["p10_us"] = c.p10_us;
    object["p90_us"] = c.p90_us;
  }
  if (!c.note.empty()) object["note"] = json::fixUTF8(c.note);
  return object;
}

bool parse_candidate(const json::Value& value, TunedCandidate& c) {
  const json::Object* object = value.getAsObject();
  if (!parse_id(object, c.id)) return false;
  const auto predicted = object->getNumber("predicted_us");
  if (!predicted) return false;
  c.predicted_us = *predicted;
  if (const auto us = object->getNumber("us")) c.median_us = *us;
  c.p10_us = object->getNumber("p10_us").getValueOr(0);
  c.p90_us = object->getNumber("p90_us").getValueOr(0);
  c.note = object->getString("note").getValueOr("").str();
  // The parser reads 1e999 as infinity.
  const double times[] = {c.predicted_us, c.median_us.value_or(0), c.p10_us, c.p90_us};
  return std::ranges::all_of(times, [](double us) { return std::isfinite(us); });
}

// Every text field by its name, for writing and for reading.
template <class Record, class Field>
void each_text(Record& r, Field field) {
  field("signature", r.signature);
  field("target", r.target);
  field("arch", r.arch);
  field("templates", r.templates);
  field("device", r.device);
  field("driver", r.driver);
  field("compiler", r.compiler);
  field("date", r.date);
  field("chain", r.chain);
}

template <class Record, class Field>
void each_number(Record& r, Field field) {
  field("sm_count", r.sm_count);
}

Error corrupt(const char* what) { return make_error(ErrorCode::kCorruptArtifact, "{}", what); }

const TunedCandidate* find(const TuningRecord& r, const CandidateId& id) {
  const auto found = std::find_if(r.candidates.begin(), r.candidates.end(),
                                  [&](const TunedCandidate& c) { return c.id == id; });
  return found == r.candidates.end() ? nullptr : &*found;
}

}  // namespace

KernelKey tuning_key(const Target& target, const std::string& signature) {
  llvm::SHA256 hash;
  for (const std::string& part :
       {kMagic.str(), target.name, target.arch, std::to_string(target.sm_count), signature}) {
    char length[8];
    llvm::support::endian::write64le(length, part.size());
    hash.update(llvm::StringRef(length, sizeof(length)));
    hash.update(part);
  }
  KernelKey key;
  std::ranges::copy(hash.final(), key.bytes.begin());
  return key;
}

json::Value tuning_json(const TuningRecord& record) {
  json::Object object;
  each_text(record, [&](const char* name, const std::string& value) {
    object[name] = json::fixUTF8(value);
  });
  each_number(record, [&](const char* name, int value) { object[name] = value; });
  object["winner"] = id_json(record.winner);
  object["model"] = id_json(record.model);
  json::Array candidates;
  for (const TunedCandidate& c : record.candidates) candidates.push_back(candidate_json(c));
  object["candidates"] = std::move(candidates);
  return object;
}

std::vector<u8> tuning_bytes(const TuningRecord& record) {
  const std::string body = json_text(tuning_json(record)) + "\n";
  const std::string text = kMagic.str() + hex_digest(body) + "\n" + body;
  return {text.begin(), text.end()};
}

Expected<TuningRecord> parse_tuning(llvm::ArrayRef<u8> bytes) {
  llvm::StringRef text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.consume_front(kMagic)) return corrupt("it is not a tuning record of this version");
  const auto [digest, body] = text.split('\n');
  if (digest != hex_digest(body)) return corrupt("its bytes do not match their SHA-256");
  Expected<json::Value> value = parse_json(body);
  if (!value) return value.takeError();
  const json::Object* object = value->getAsObject();
  if (object == nullptr) return corrupt("it is no JSON object");
  TuningRecord record;
  bool whole = true;
  each_text(record, [&](const char* name, std::string& field) {
    const auto found = object->getString(name);
    whole = whole && found;
    if (found) field = found->str();
  });
  each_number(record, [&](const char* name, int& field) {
    const auto found = object->getInteger(name);
    whole = whole && found && *found >= 0 && *found <= std::numeric_limits<int>::max();
    if (whole) field = static_cast<int>(*found);
  });
  whole = whole && parse_id(object->getObject("winner"), record.winner) &&
          parse_id(object->getObject("model"), record.model);
  const json::Array* candidates = object->getArray("candidates");
  if (!whole || candidates == nullptr) return corrupt("a field is missing or outside its range");
  for (const json::Value& one : *candidates) {
    record.candidates.emplace_back();
    if (!parse_candidate(one, record.candidates.back()))
      return corrupt("a field is missing or outside its range");
  }
  return record;
}

std::string tuning_summary(const TuningRecord& record) {
  const TunedCandidate* winner = find(record, record.winner);
  const TunedCandidate* model = find(record, record.model);
  std::string text = "measured";
  if (winner != nullptr && winner->median_us) text += fmt::format(" {:.2f} us", *winner->median_us);
  if (model != nullptr && model != winner && model->median_us) {
    text += fmt::format(", {:.2f} us by the cost model's {}", *model->median_us, model->id.tile);
    if (model->id.split_k > 1) text += fmt::format(" with split-K {}", model->id.split_k);
  }
  return message_text(text + fmt::format(" ({}, {})", record.device, record.date.substr(0, 10)));
}

}  // namespace catenary
