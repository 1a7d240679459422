// SPDX-License-Identifier: Apache-2.0
// Order statistics of repeated measurements. Knows no units.
#pragma once

#include <vector>

namespace catenary::tuner {

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

// The q-quantile (q in [0, 1], clamped), linear between the two nearest values; 0 of no values.
double quantile(std::vector<double> values, double q);

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

Spread spread_of(const std::vector<double>& values);

}  // namespace catenary::tuner
