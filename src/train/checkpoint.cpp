#include "train/checkpoint.h"

#include <fmt/core.h>
#include <torch/utils.h>

#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "base/text.h"
#include "core/registry.h"
#include "io/bounds.h"
#include "io/json_fields.h"
#include "io/safetensors.h"
#include "orthobatch/spec.h"
#include "run/origin.h"

namespace orthobatch::train {
namespace {

using nlohmann::json;

constexpr const char* format_name = "orthobatch checkpoint";
constexpr const char* checksum_key = "checksum";
constexpr const char *net_prefix = "net.", *momentum_prefix = "optimizer.";

// ----------------------------------------------------------------------------- tensors

const char* dtype_of(const torch::Tensor& t) {
  switch (t.scalar_type()) {
    case torch::kFloat:
      return "F32";
    case torch::kDouble:
      return "F64";
    case torch::kLong:
      return "I64";
    default:
      throw std::logic_error("checkpoint: a tensor of another type");
  }
}

std::string type_text(const std::string& dtype, const std::vector<int64_t>& shape) {
  return dtype + " " + json(shape).dump();
}

void put(io::Safetensors& file, const std::string& name, const torch::Tensor& tensor) {
  const torch::Tensor t = tensor.detach().cpu().contiguous();
  file.add(name, dtype_of(t), t.sizes().vec(), t.data_ptr(),
           static_cast<size_t>(t.numel()) * t.element_size());
}

/// SGD's state is by key: the tensor's address, which LibTorch 1.13 has as a text.
template <typename States>
typename States::key_type state_key(const States&, const torch::Tensor& parameter) {
  void* address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<typename States::key_type, std::string>) {
    std::ostringstream text;
    text << address;
    return text.str();
  } else {
    return address;
  }
}

/// Takes the tensors of a file one by one: each must be there once and fit, none may be left.
class TensorReader {
 public:
  TensorReader(const io::Safetensors& file, const std::string& path) : file_(file), path_(path) {
    for (const io::StoredTensor& tensor : file.tensors) left_[tensor.name] = &tensor;
  }

  bool has(const std::string& name) const { return left_.count(name) > 0; }

  /// One with the type and shape of `like`, and finite: a net with other numbers is of no use.
  torch::Tensor take(const std::string& name, const torch::Tensor& like) {
    const std::string field = "tensor " + name,
                      expected = type_text(dtype_of(like), like.sizes().vec());
    const auto it = left_.find(name);
    if (it == left_.end()) throw io::FileError(path_, field, expected, "none");
    const io::StoredTensor& stored = *it->second;
    if (const std::string found = type_text(stored.dtype, stored.shape); found != expected)
      throw io::FileError(path_, field, expected, found);
    left_.erase(it);
    const torch::Tensor out = torch::empty(like.sizes(), like.scalar_type());
    if (stored.size > 0)
      std::memcpy(out.data_ptr(), file_.bytes.data() + stored.offset, stored.size);
    if (out.is_floating_point() ? !out.isfinite().all().item<bool>() : out.lt(0).any().item<bool>())
      throw io::FileError(path_, field, out.is_floating_point() ? "finite numbers" : "counts",
                          out.is_floating_point() ? "NaN or infinite ones" : "negative ones");
    return out;
  }

  void refuse_others() const {
    if (!left_.empty())
      throw io::FileError(path_, "tensors", "those of the net in its config",
                          json(left_.begin()->first).dump() + " too");
  }

 private:
  const io::Safetensors& file_;
  const std::string& path_;
  std::map<std::string, const io::StoredTensor*> left_;
};

/// Bytes of the largest tensors of a net, without building it: a config in a small file may ask for
/// more than the machine has.
double least_size(const data::ImageShape& image, const run::NetConfig& config, size_t classes) {
  double size = 0, in = static_cast<double>(image.channels);
  for (const run::BlockConfig& block : config.blocks) {
    const auto fov = static_cast<double>(block.fov), channels = static_cast<double>(block.channels);
    const LayerSpec spec = parse(block.layer);
    size += 4 * channels * in * fov * fov;
    if (!core::find_method(spec.method()).per_channel) size += 8 * channels * channels;
    if (spec.has_rotation()) size += 2 * channels * (channels - 1);
    in = channels;
  }
  const auto [height, width] = run::map_sizes(config, image.height, image.width).back();
  const auto places = static_cast<double>(height * width);
  return size +
         4 * static_cast<double>(classes) * (config.head == run::Head::flat ? in * places : in);
}

void take_tensors(const io::Safetensors& file, Checkpoint& out) {
  const double least = least_size(out.image, out.config.net, out.classes.size());
  if (static_cast<double>(file.bytes.size()) < least)
    throw io::FileError(out.path, "size",
                        fmt::format("at least {:.0f} bytes for the net in its config", least),
                        std::to_string(file.bytes.size()));
  out.net = DigitNet(out.image, out.config.net, static_cast<int64_t>(out.classes.size()));
  const torch::NoGradGuard no_grad;
  TensorReader tensors(file, out.path);
  for (const auto& item : out.net->named_buffers())
    item.value().copy_(tensors.take(net_prefix + item.key(), item.value()));
  const auto parameters = out.net->named_parameters();
  for (const auto& item : parameters)
    item.value().copy_(tensors.take(net_prefix + item.key(), item.value()));
  const auto momentum_name = [&](size_t i) { return momentum_prefix + parameters[i].key(); };
  const bool any = tensors.has(momentum_name(0));
  for (size_t i = 0; any && i < parameters.size(); ++i)
    out.momenta.push_back(tensors.take(momentum_name(i), parameters[i].value()));
  tensors.refuse_others();
}

// -------------------------------------------------------------------------------- texts

/// What config.json records of the data.
void take_found(const json& config, int64_t& train_images, Checkpoint& out) {
  const auto require = [](bool holds, const std::string& expected) {
    if (!holds) throw std::invalid_argument("config: found: expected " + expected);
  };
  io::JsonFields fields(config, "config", io::JsonFields::Kind::record);
  fields.require({"found"}, "an object");
  out.found = *fields.object("found");
  io::JsonFields found(out.found, "config: found", io::JsonFields::Kind::state);
  std::vector<int64_t> image;
  found.integer("train_images", train_images, {1, run::most_images});
  found.numbers("image", image, {1, io::largest_side});
  found.numbers("mean", out.scale.mean);
  found.numbers("deviation", out.scale.deviation, {0, 1e30, io::Range::above_low});
  require(image.size() == 3 && (image[2] == 1 || image[2] == 3),
          "rows, columns and channels, 1 or 3, as image");
  out.image = {image[0], image[1], image[2]};
  const auto channels = static_cast<size_t>(image[2]);
  require(out.scale.mean.size() == channels && out.scale.deviation.size() == channels,
          "a mean and a deviation for each channel");
  if (out.found.contains("classes")) {
    for (const json& name : *found.array("classes")) {
      const std::string text = name.is_string() ? name.get<std::string>() : "";
      require(name.is_string() && base::printable(text) == text,
              "lines of text without control characters as classes");
      out.classes.push_back(text);
    }
    require(out.classes.size() >= 2 && out.classes.size() <= size_t{data::most_classes},
            fmt::format("2 to {} classes", data::most_classes));
  } else {
    out.classes = data::digit_names();
  }
}

void take_texts(const io::Safetensors& file, Checkpoint& out) {
  const auto text = [&](const char* key) {
    const auto it = file.metadata.find(key);
    if (it == file.metadata.end())
      throw io::FileError(out.path, "checkpoint", std::string("its ") + key,
                          "none: it is of another program");
    return it->second;
  };
  if (const std::string format = text("format"); format != format_name)
    throw io::FileError(out.path, "checkpoint format", format_name,
                        json(format).dump().substr(0, 80));
  if (const std::string sum = io::content_checksum(file, checksum_key); text(checksum_key) != sum)
    throw io::FileError(out.path, "checkpoint: checksum",
                        json(text(checksum_key)).dump().substr(0, 80), sum + ": it is damaged");
  const json config = io::parse_json(text("config"), "config");
  out.config = run::config_from_json(config, "config");
  run::check_config(out.config);
  int64_t images = 0;
  take_found(config, images, out);
  out.origin = run::origin_in(config);
  out.state = parse_state(text("state"), out.config, images);
}

}  // namespace

void save_checkpoint(const std::string& path, const std::string& config, const TrainState& state,
                     const DigitNet& net, const torch::optim::SGD& optimizer) {
  io::Safetensors file;
  file.metadata = {{"format", format_name}, {"config", config}, {"state", state_text(state)}};
  const auto parameters = net->named_parameters();
  for (const auto& item : parameters) put(file, net_prefix + item.key(), item.value());
  for (const auto& item : net->named_buffers()) put(file, net_prefix + item.key(), item.value());
  const std::vector<torch::Tensor> momenta = momenta_of(net, optimizer);
  for (size_t i = 0; i < momenta.size(); ++i)
    put(file, momentum_prefix + parameters[i].key(), momenta[i]);
  file.metadata[checksum_key] = io::content_checksum(file, checksum_key);
  io::write_file(path, io::safetensors_text(file, path));
}

Checkpoint parse_checkpoint(io::Bytes bytes, const std::string& path) {
  Checkpoint out;
  out.path = path;
  try {
    const io::Safetensors file = io::parse_safetensors(std::move(bytes), path);
    take_texts(file, out);
    take_tensors(file, out);
  } catch (const io::FileError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // of this machine, not of the file
  } catch (const std::exception& error) {
    throw io::FileError(path, base::first_line(error.what()));
  }
  return out;
}

Checkpoint read_checkpoint(const std::string& path) {
  return parse_checkpoint(io::read_file(path, io::largest_checkpoint), path);
}

data::DataRequest test_request(const Checkpoint& checkpoint, const std::string& data,
                               const std::string& data_dir) {
  run::require_named_or_made_here(checkpoint.path, checkpoint.config.data, checkpoint.origin,
                                  !data.empty() || !data_dir.empty());
  data::DataRequest request{data.empty() ? checkpoint.config.data : data, data_dir};
  request.subset = checkpoint.config.subset;
  request.shape = checkpoint.image;
  request.classes = checkpoint.classes;
  request.test_only = true;
  return request;
}

std::vector<torch::Tensor> momenta_of(const DigitNet& net, const torch::optim::SGD& optimizer) {
  std::vector<torch::Tensor> out;
  const auto& states = optimizer.state();
  for (const torch::Tensor& p : net->parameters()) {
    const auto it = states.find(state_key(states, p));
    if (it == states.end()) continue;
    out.push_back(static_cast<const torch::optim::SGDParamState&>(*it->second).momentum_buffer());
  }
  return out;
}

void restore_momenta(const std::vector<torch::Tensor>& momenta, const DigitNet& net,
                     torch::optim::SGD& optimizer) {
  const std::vector<torch::Tensor> parameters = net->parameters();
  auto& states = optimizer.state();
  for (size_t i = 0; i < momenta.size(); ++i) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    // In the layout of its parameter, as the optimizer itself makes it.
    state->momentum_buffer(torch::empty_like(parameters[i]).copy_(momenta[i]).detach());
    states[state_key(states, parameters[i])] = std::move(state);
  }
}

}  // namespace orthobatch::train
