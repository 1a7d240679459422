// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations between their issue and their landing: kept by the thread that issued
// them, landed one at a time at random moments, or together where the thread waits.
#include <algorithm>
#include <utility>

#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

// Removes one; the order of the others changes.
Operation take(std::vector<Operation>& operations, size_t at) {
  Operation taken = std::move(operations[at]);
  if (at + 1 != operations.size()) operations[at] = std::move(operations.back());
  operations.pop_back();
  return taken;
}

// Number `at` of a thread's operations and products; of the products the first, whichever is meant:
// they land in order, since each adds to what the one before left.
Operation take_any(std::vector<Operation>& operations, std::vector<Operation>& products,
                   size_t at) {
  if (at < operations.size()) return take(operations, at);
  Operation product = std::move(products.front());
  products.erase(products.begin());
  return product;
}

}  // namespace

void Runner::issue(Operation operation) {
  Thread& owner = *operation.owner;
  if (owner.operations.empty() && owner.products.empty()) {
    owner.issuer_at = issuers_.size();
    issuers_.push_back(&owner);
    if (owner.operations.capacity() == 0) owner.operations = take_spare();
  }
  if (operation.kind == Operation::Kind::kWgmma) {
    owner.products.push_back(std::move(operation));
  } else {
    owner.operations.push_back(std::move(operation));
  }
}

void Runner::drop_issuer_if_idle(Thread& owner) {
  if (!owner.operations.empty() || !owner.products.empty()) return;
  issuers_[owner.issuer_at] = issuers_.back();
  issuers_[owner.issuer_at]->issuer_at = owner.issuer_at;
  issuers_.pop_back();
}

bool Runner::land_one() {
  if (issuers_.empty()) return false;
  Thread& owner = *issuers_[random(issuers_.size())];
  const size_t count = owner.operations.size() + owner.products.size();
  Operation operation = take_any(owner.operations, owner.products, random(count));
  drop_issuer_if_idle(owner);
  land(owner, operation);
  return true;
}

void Runner::land(const Thread& owner, Operation& operation) {
  const Thread* outer = std::exchange(landing_, &owner);
  operation.land();
  landing_ = outer;
}

void Runner::land_all(Thread& owner, llvm::function_ref<bool(const Operation&)> wanted) {
  if (owner.operations.empty() && owner.products.empty()) return;
  std::vector<Operation> landing = take_spare();
  for (size_t i = 0; i < owner.operations.size();) {
    if (!wanted(owner.operations[i])) {
      ++i;
      continue;
    }
    landing.push_back(take(owner.operations, i));
  }
  // In which order a thread's cp.async land at once cannot be seen.
  if (!landing.empty() && landing.front().kind != Operation::Kind::kCopy) {
    for (size_t i = landing.size(); i > 1; --i) std::swap(landing[i - 1], landing[random(i)]);
  }
  const auto unwanted = std::find_if_not(owner.products.begin(), owner.products.end(), wanted);
  std::move(owner.products.begin(), unwanted, std::back_inserter(landing));
  owner.products.erase(owner.products.begin(), unwanted);
  drop_issuer_if_idle(owner);
  for (Operation& operation : landing) land(owner, operation);
  give_spare(std::move(landing));
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
