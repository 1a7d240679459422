// SPDX-License-Identifier: Apache-2.0
// A family's own config struct as a value: the planner stores it, compares it and hands it back to
// the family. So a new family adds a config without a change here.
#pragma once

#include <memory>

namespace catenary {

class KernelConfig {
 public:
  KernelConfig() = default;
  template <class T>
  KernelConfig(T config)  // NOLINT: a config converts silently
      : value_(std::make_shared<Value<T>>(std::move(config))) {}

  // Null if the config is of another type.
  template <class T>
  const T* get_if() const {
    return is<T>() ? &static_cast<const Value<T>*>(value_.get())->config : nullptr;
  }
  // The config is a T.
  template <class T>
  const T& get() const {
    return static_cast<const Value<T>*>(value_.get())->config;
  }
  template <class T>
  bool is() const {
    return value_ && value_->type == &kType<T>;
  }
  friend bool operator==(const KernelConfig& a, const KernelConfig& b) {
    if (!a.value_ || !b.value_) return a.value_ == b.value_;
    return a.value_->type == b.value_->type && a.value_->equals(*b.value_);
  }

 private:
  template <class T>
  static constexpr char kType = 0;  // its address is the type's identity

  struct AnyValue {
    explicit AnyValue(const char* t) : type(t) {}
    virtual ~AnyValue() = default;
    virtual bool equals(const AnyValue& other) const = 0;  // of the same type
    const char* type;
  };
  template <class T>
  struct Value final : AnyValue {
    explicit Value(T c) : AnyValue(&kType<T>), config(std::move(c)) {}
    bool equals(const AnyValue& other) const override {
      return config == static_cast<const Value&>(other).config;
    }
    T config;
  };
  std::shared_ptr<const AnyValue> value_;
};

}  // namespace catenary
