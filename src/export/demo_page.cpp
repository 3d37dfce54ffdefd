#include "export/demo_page.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

#include "embedded/demo.h"
#include "io/base64.h"
#include "io/page_text.h"

namespace orthobatch::exporter {
namespace {

using nlohmann::ordered_json;

constexpr int64_t most_samples = 40;

/// All weights in one row of floats, and where each step's are.
class Numbers {
 public:
  ordered_json add(const torch::Tensor& tensor) {
    const torch::Tensor dense = tensor.to(torch::kFloat).contiguous();
    const size_t at = bytes_.size();
    bytes_.resize(at + dense.nbytes());
    std::memcpy(bytes_.data() + at, dense.data_ptr(), dense.nbytes());
    return {{"at", at / sizeof(float)}, {"count", dense.numel()}};
  }
  std::string text() const { return io::base64(bytes_); }

 private:
  io::Bytes bytes_;
};

ordered_json to_json(const ConvStep& s, Numbers& numbers) {
  return {{"kind", "conv"},
          {"outputs", s.weight.size(0)},
          {"kernel", {s.weight.size(2), s.weight.size(3)}},
          {"stride", s.stride},
          {"dilation", s.dilation},
          {"pads", s.pads},
          {"groups", s.groups},
          {"weight", numbers.add(s.weight)},
          {"bias", numbers.add(s.bias)}};
}
ordered_json to_json(const ReluStep&, Numbers&) { return {{"kind", "relu"}}; }
ordered_json to_json(const PoolStep& s, Numbers&) {
  return {{"kind", s.average ? "average" : "largest"}};
}
ordered_json to_json(const FlattenStep&, Numbers&) { return {{"kind", "flatten"}}; }
ordered_json to_json(const LinearStep& s, Numbers& numbers) {
  return {{"kind", "linear"},
          {"outputs", s.weight.size(0)},
          {"weight", numbers.add(s.weight)},
          {"bias", numbers.add(s.bias)}};
}

/// The first few images of each class, class by class.
ordered_json samples_of(const data::ImageSet& tested, int64_t classes) {
  const int64_t each = std::max<int64_t>(1, most_samples / std::max<int64_t>(1, classes));
  std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(classes));
  for (int64_t i = 0; i < tested.count(); ++i) {
    auto& of_class = chosen.at(tested.labels[static_cast<size_t>(i)]);
    if (static_cast<int64_t>(of_class.size()) < each) of_class.push_back(i);
  }
  io::Bytes pixels;
  std::vector<int64_t> labels;
  for (size_t label = 0; label < chosen.size(); ++label)
    for (const int64_t i : chosen[label]) {
      if (static_cast<int64_t>(labels.size()) == most_samples) break;
      labels.push_back(static_cast<int64_t>(label));
      pixels.insert(pixels.end(), tested.image(i), tested.image(i) + tested.image_size());
    }
  return {{"labels", labels}, {"pixels", io::base64(pixels)}};
}

/// Whether the training images are light on a dark ground, as MNIST's are.
bool is_dark(const data::InputScale& scale) {
  return *std::max_element(scale.mean.begin(), scale.mean.end()) < 0.35;
}

}  // namespace

std::string demo_page(const PlainNet& net, const std::vector<std::string>& classes,
                      const data::InputScale& scale, const data::ImageSet& tested,
                      bool own_pictures, const std::string& facts) {
  // Strokes are light on dark: images of another kind are opened.
  const bool digits = net.image.channels == 1 && is_dark(scale);
  Numbers numbers;
  ordered_json steps = ordered_json::array();
  for (const Step& step : net.steps)
    steps.push_back(
        std::visit([&](const auto& what) { return to_json(what, numbers); }, step.what));
  ordered_json model = {{"image",
                         {{"rows", net.image.height},
                          {"columns", net.image.width},
                          {"channels", net.image.channels}}},
                        {"classes", classes},
                        {"facts", facts},
                        {"draws", digits},
                        {"inverts", digits && !own_pictures},
                        {"steps", steps},
                        {"samples", samples_of(tested, net.classes)},
                        {"numbers", numbers.text()}};
  const std::string title = digits ? "Draw, and the net answers" : "Show the net a picture";
  std::string script;
  for (const char* name : {"net.js", "drawing.js", "demo.js"})
    script += io::embedded_text(io::embedded_demo, name);
  return io::filled_page(io::embedded_text(io::embedded_demo, "demo.html"),
                         {{"title", title},
                          {"style", io::embedded_text(io::embedded_demo, "demo.css")},
                          {"title", title},
                          {"model", io::inside_script(model.dump())},
                          {"script", script}});
}

}  // namespace orthobatch::exporter
