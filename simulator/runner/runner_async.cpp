// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations from issue to completion: the issuing thread holds them. They complete
// one at a time at random moments, or together where the thread waits for them.
#include <algorithm>
#include <utility>

#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

// Removes one operation; the order of the others changes.
Operation take(std::vector<Operation>& operations, size_t at) {
  Operation taken = std::move(operations[at]);
  if (at + 1 != operations.size()) operations[at] = std::move(operations.back());
  operations.pop_back();
  return taken;
}

// Removes operation `at`; an index beyond the operations means the oldest wgmma: wgmmas complete in
// issue order, since each adds to the accumulators of the previous one.
Operation take_any(std::vector<Operation>& operations, std::vector<Operation>& wgmmas, size_t at) {
  if (at < operations.size()) return take(operations, at);
  Operation oldest = std::move(wgmmas.front());
  wgmmas.erase(wgmmas.begin());
  return oldest;
}

}  // namespace

void Runner::issue(Operation operation) {
  Thread& owner = *operation.owner;
  if (owner.operations.empty() && owner.wgmmas.empty()) {
    owner.issuer_index = issuers_.size();
    issuers_.push_back(&owner);
    if (owner.operations.capacity() == 0) owner.operations = take_spare();
  }
  if (operation.kind == Operation::Kind::kWgmma) {
    owner.wgmmas.push_back(std::move(operation));
  } else {
    owner.operations.push_back(std::move(operation));
  }
}

void Runner::drop_issuer_if_idle(Thread& owner) {
  if (!owner.operations.empty() || !owner.wgmmas.empty()) return;
  issuers_[owner.issuer_index] = issuers_.back();
  issuers_[owner.issuer_index]->issuer_index = owner.issuer_index;
  issuers_.pop_back();
}

bool Runner::complete_one() {
  if (issuers_.empty()) return false;
  Thread& owner = *issuers_[random(issuers_.size())];
  const size_t count = owner.operations.size() + owner.wgmmas.size();
  Operation operation = take_any(owner.operations, owner.wgmmas, random(count));
  drop_issuer_if_idle(owner);
  complete(owner, operation);
  return true;
}

void Runner::complete(const Thread& owner, Operation& operation) {
  const Thread* outer = std::exchange(completing_, &owner);
  operation.complete();
  completing_ = outer;
}

void Runner::complete_all(Thread& owner, llvm::function_ref<bool(const Operation&)> wanted) {
  if (owner.operations.empty() && owner.wgmmas.empty()) return;
  std::vector<Operation> completing = take_spare();
  for (size_t i = 0; i < owner.operations.size();) {
    if (!wanted(owner.operations[i])) {
      ++i;
      continue;
    }
    completing.push_back(take(owner.operations, i));
  }
  // The order in which cp.async of one wait complete cannot be observed: no shuffle.
  if (!completing.empty() && completing.front().kind != Operation::Kind::kCpAsync) {
    for (size_t i = completing.size(); i > 1; --i)
      std::swap(completing[i - 1], completing[random(i)]);
  }
  const auto unwanted = std::find_if_not(owner.wgmmas.begin(), owner.wgmmas.end(), wanted);
  std::move(owner.wgmmas.begin(), unwanted, std::back_inserter(completing));
  owner.wgmmas.erase(owner.wgmmas.begin(), unwanted);
  drop_issuer_if_idle(owner);
  for (Operation& operation : completing) complete(owner, operation);
  give_spare(std::move(completing));
}

std::vector<Operation> Runner::take_spare() {
  std::vector<Operation> list;
  if (!spare_.empty()) {
    list = std::move(spare_.back());
    spare_.pop_back();
  }
  return list;
}

void Runner::give_spare(std::vector<Operation> list) {
  list.clear();
  spare_.push_back(std::move(list));
}

}  // namespace catenary::sim
