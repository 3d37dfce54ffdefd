#include "core/registry.h"

#include <stdexcept>

namespace orthobatch::core {

const std::vector<MethodInfo>& registry() {
  static const std::vector<MethodInfo> methods = {
      bn_method(),
      zca_method(),
      zcam_method(),
      zcae_method(),
      correlation_of(zca_method(), "SVHN 6.57 %; ->W 7.39 %, ->W->Gamma 7.61 %"),
      correlation_of(zcam_method(), "SVHN 6.72 % (c = 1/10); ->W 7.86 %, ->W->Gamma 8.10 %"),
      ldl_method(),
      correlation_of(ldl_method(), "SVHN 7.33 %"),
      pldlp_method(),
      pca_method(),
      zca_spectral_method(),
      iternorm_method(),
  };
  return methods;
}

const MethodInfo& find_method(const std::string& name) {
  for (const MethodInfo& info : registry())
    if (info.name == name) return info;
  throw std::out_of_range("no method is named '" + name + "'");
}

std::unique_ptr<Method> make_method(const LayerSpec& spec) {
  return find_method(spec.method()).make({spec.values(), spec.gradient()});
}

}  // namespace orthobatch::core
