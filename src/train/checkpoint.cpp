#include "train/checkpoint.h"

#include <torch/serialize.h>

#include <algorithm>
#include <cstring>

#include "io/checksum.h"
#include "io/file.h"

namespace orthobatch {
namespace {

using nlohmann::ordered_json;

constexpr const char* format_key = "format";
constexpr const char* format_name = "orthobatch checkpoint 1";
constexpr uint64_t largest_checkpoint = uint64_t{1} << 32;

ordered_json settings_json(const StepSettings& s) {
  return {{"learning_rate", s.learning_rate},
          {"momentum", s.momentum},
          {"alpha", s.alpha},
          {"batch", s.batch}};
}

ordered_json state_json(const TrainState& s) {
  ordered_json lowest = nullptr;
  if (s.schedule.lowest_loss) lowest = *s.schedule.lowest_loss;
  return {{"epoch", s.epoch},
          {"step", s.step},
          {"images", s.images},
          {"wrong", s.wrong},
          {"loss_sum", s.loss_sum},
          {"seconds", s.seconds},
          {"waited", s.waited},
          {"layers", s.layers},
          {"exchanges", s.exchanges},
          {"curve",
           {{"every", s.curve.every},
            {"loss", s.curve.loss},
            {"sum", s.curve.sum},
            {"steps", s.curve.steps}}},
          {"schedule",
           {{"now", settings_json(s.schedule.now)},
            {"lowest_loss", lowest},
            {"slow_count", s.schedule.slow_count}}},
          {"best",
           {{"epoch", s.best.epoch},
            {"test_error_percent", s.best.test_error_percent},
            {"test_loss", s.best.test_loss}}},
          {"history", s.history}};
}

TrainState state_from_json(const ordered_json& j) {
  TrainState s;
  j.at("epoch").get_to(s.epoch);
  j.at("step").get_to(s.step);
  j.at("images").get_to(s.images);
  j.at("wrong").get_to(s.wrong);
  j.at("loss_sum").get_to(s.loss_sum);
  j.at("seconds").get_to(s.seconds);
  j.at("waited").get_to(s.waited);
  s.layers = j.at("layers");
  if (j.contains("curve")) {  // since 0.2
    j.at("exchanges").get_to(s.exchanges);
    const ordered_json& curve = j.at("curve");
    s.curve = {curve.at("every"), curve.at("loss"), curve.at("sum"), curve.at("steps")};
  }
  const ordered_json& schedule = j.at("schedule");
  const ordered_json& now = schedule.at("now");
  s.schedule.now = {now.at("learning_rate"), now.at("momentum"), now.at("alpha"), now.at("batch")};
  if (!schedule.at("lowest_loss").is_null()) s.schedule.lowest_loss = schedule.at("lowest_loss");
  schedule.at("slow_count").get_to(s.schedule.slow_count);
  const ordered_json& best = j.at("best");
  s.best = {best.at("epoch"), best.at("test_error_percent"), best.at("test_loss")};
  s.history = j.at("history");
  return s;
}

// libtorch may crash on a damaged archive, so a sum of the whole file is verified before it sees
// one. The sum is the archive's comment, as zip files have one: they end with its length, 0 in what
// libtorch writes, and the comment itself. Any reader of the archive passes over it.
constexpr const char* seal_head = "orthobatch md5 ";
constexpr size_t md5_digits = 32;

std::string seal_of(const void* archive, size_t size) { return seal_head + md5_hex(archive, size); }

void seal(std::string& archive) {
  const std::string comment = seal_of(archive.data(), archive.size());
  archive[archive.size() - 2] = static_cast<char>(comment.size());
  archive += comment;
}

/// The archive without its seal, which is verified.
Bytes read_sealed(const std::string& path) {
  Bytes bytes = read_file(path, largest_checkpoint);
  const size_t length = std::strlen(seal_head) + md5_digits;
  if (bytes.size() < length + 22)
    throw FileError(path, "checkpoint", "a file that train wrote", "a damaged or foreign one");
  const std::string found(bytes.end() - static_cast<std::ptrdiff_t>(length), bytes.end());
  bytes.resize(bytes.size() - length);
  if (found.rfind(seal_head, 0) != 0)
    throw FileError(path, "checkpoint", "the sum train ends it with",
                    "none: it is damaged (cut off?) or of another program");
  bytes[bytes.size() - 2] = 0;
  if (const std::string expected = seal_of(bytes.data(), bytes.size()); found != expected)
    throw FileError(path, "checkpoint: MD5", found.substr(std::strlen(seal_head)),
                    expected.substr(std::strlen(seal_head)) + ": it is damaged");
  return bytes;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

torch::serialize::InputArchive open_archive(const std::string& path, const Bytes& bytes) {
  torch::serialize::InputArchive archive;
  c10::IValue format;
  try {
    archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    archive.read(format_key, format);
  } catch (const std::exception&) {
    throw FileError(path, "checkpoint", format_name, "an archive of another program");
  }
  if (!format.isString() || format.toStringRef() != format_name)
    throw FileError(path, "checkpoint format", format_name,
                    format.isString() ? format.toStringRef() : "something else");
  return archive;
}

std::string read_text(torch::serialize::InputArchive& archive, const char* key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toStringRef();
}

std::vector<std::vector<int64_t>> shapes_of(DigitNet& net) {
  std::vector<std::vector<int64_t>> out;
  for (const torch::Tensor& t : net->parameters()) out.push_back(t.sizes().vec());
  for (const torch::Tensor& t : net->buffers()) out.push_back(t.sizes().vec());
  return out;
}

}  // namespace

void LossCurve::add(double value, int64_t steps_in_epoch) {
  constexpr int64_t points = 24;  // in an epoch, or so
  if (every == 0) every = std::max<int64_t>(1, steps_in_epoch / points);
  sum += value;
  if (++steps < every) return;
  loss.push_back(sum / static_cast<double>(steps));
  sum = 0;
  steps = 0;
}

void save_checkpoint(const std::string& path, const std::string& config, const TrainState& state,
                     DigitNet& net, const torch::optim::SGD& optimizer) {
  torch::serialize::OutputArchive archive, weights, momenta;
  net->save(weights);
  optimizer.save(momenta);
  archive.write(format_key, c10::IValue(format_name));
  archive.write("config", c10::IValue(config));
  archive.write("state", c10::IValue(state_json(state).dump()));
  archive.write("net", weights);
  archive.write("optimizer", momenta);
  std::string bytes;
  archive.save_to([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  seal(bytes);
  write_file(path, bytes);
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const Bytes bytes = read_sealed(path);
  torch::serialize::InputArchive archive = open_archive(path, bytes);
  try {
    return {nlohmann::json::parse(read_text(archive, "config")),
            state_from_json(ordered_json::parse(read_text(archive, "state")))};
  } catch (const std::exception& error) {
    throw FileError(path, "checkpoint state", "the state of a run", first_line(error.what()));
  }
}

void load_checkpoint(const std::string& path, DigitNet& net, torch::optim::SGD* optimizer) {
  const Bytes bytes = read_sealed(path);
  torch::serialize::InputArchive archive = open_archive(path, bytes);
  torch::optim::SGD scratch(net->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD& target = optimizer ? *optimizer : scratch;
  try {
    torch::serialize::InputArchive weights, momenta;
    archive.read("net", weights);
    archive.read("optimizer", momenta);
    const auto shapes = shapes_of(net);
    net->load(weights);  // takes tensors of any shape
    if (shapes_of(net) != shapes) throw std::runtime_error("tensors of other shapes");
    target.load(momenta);
  } catch (const std::exception& error) {
    throw FileError(path, "weights", "those of the net in its config", first_line(error.what()));
  }
}

}  // namespace orthobatch
