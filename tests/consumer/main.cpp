// A user's project: the README's example against the installed package.
#include <orthobatch/orthobatch.h>
#include <torch/torch.h>

#include <iostream>

// clang-format off: the lines are the README's
int main() {
  using namespace torch::nn;
  torch::manual_seed(0);
  Sequential net(Conv2d(3, 16, 3), ReLU(), orthobatch::BatchOrtho2d(16, "ZCA(1e-5)"),  // was BatchNorm2d(16)
                 Conv2d(16, 32, 3), ReLU(), AdaptiveAvgPool2d(1), Flatten(), Linear(32, 10));
  net = orthobatch::fold_training(net);  // optional: merges the layer into the next convolution, in training too
  try {
    auto loss = net->forward(torch::randn({32, 3, 28, 28})).square().mean();
    loss.backward();
  } catch (const orthobatch::FactorizationError& error) {
    std::cout << error.what() << "\n";
    return 1;
  }

  std::cout << "orthobatch " << ORTHOBATCH_VERSION << "\n"
            << orthobatch::to_string(orthobatch::summary(*net));
  for (const orthobatch::MethodDescription& method : orthobatch::methods())
    std::cout << method.name << ": " << method.description << "\n";
  for (const auto& p : net->parameters())
    if (!p.grad().isfinite().all().item<bool>()) return 1;
  try {
    orthobatch::BatchOrtho2d(16, "ZCA(1e-5");
    return 1;
  } catch (const orthobatch::SpecError& error) {
    std::cout << error.what() << "\n";
  }
}
