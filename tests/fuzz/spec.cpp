#include "orthobatch/spec.h"

#include "fuzz.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  const orthobatch::LayerSpec spec(std::string(bytes.begin(), bytes.end()));
  if (orthobatch::parse(to_string(spec)) != spec)
    throw std::logic_error("another layer the second time");
}

std::vector<std::vector<uint8_t>> corpus() {
  std::vector<std::vector<uint8_t>> out;
  for (const std::string text :
       {"BN", "ZCA(1e-5,1e12)", "ZCAM(1e-5, inf, 1/100)->W->Gamma", "ZCAE(0,inf,q=0.5)",
        "PLDLP(1e-5,unpermute,complete)->W", "LDL(1e-5,group_size=4,gradient=paper)",
        "ZCA_corr(eps=1e-3,eps_bn=1e-7)", "IterNorm(1e-5,T=7)"})
    out.emplace_back(text.begin(), text.end());
  return out;
}
