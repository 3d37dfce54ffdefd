#pragma once

#include "core/method.h"

namespace orthobatch::core {

/// Every method, in the order `orthobatch layers` shows them.
const std::vector<MethodInfo>& registry();

/// The method of that name; throws std::out_of_range for a name that is not registered.
const MethodInfo& find_method(const std::string& name);

/// The method a spec names, with the spec's arguments.
std::unique_ptr<Method> make_method(const LayerSpec& spec);

// One function per method, each in its own file of methods/.
MethodInfo bn_method();
MethodInfo zca_method();
MethodInfo zcam_method();
MethodInfo zcae_method();
MethodInfo zca_spectral_method();
MethodInfo ldl_method();
MethodInfo pldlp_method();
MethodInfo pca_method();
MethodInfo iternorm_method();

/// X_corr: BN without parameters, then X (methods/correlation.cpp).
MethodInfo correlation_of(const MethodInfo& inner, std::string paper);

}  // namespace orthobatch::core
