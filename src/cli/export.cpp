// orthobatch export: a trained net as a file for other programs.

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <filesystem>

#include "base/text.h"
#include "cli/options.h"
#include "cli/reading.h"
#include "cli/verbs.h"
#include "data/catalogue.h"
#include "export/answers.h"
#include "export/demo_page.h"
#include "export/onnx_model.h"
#include "export/script_model.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/resume.h"
#include "train/threads.h"

namespace orthobatch::cli {
namespace {

struct ExportArguments {
  std::string run, page, data_dir;
  std::string input = "bytes";
  std::vector<std::string> outputs;
  bool follow_links = false;
  int threads = 0;
};

void check_names(const ExportArguments& a) {
  if (a.outputs.empty() && a.page.empty())
    throw UsageError("export: expected -o FILE.onnx, -o FILE.pt or --page FILE.html");
  for (const std::string& path : a.outputs)
    if (!base::ends_with(path, ".onnx") && !base::ends_with(path, ".pt"))
      throw UsageError(
          fmt::format("-o: expected a name that ends in .onnx or .pt, found '{}'", path));
  or_usage_error([&] { return exporter::parse_input_form(a.input); });
}

/// What the models are compared on: the run's test images, or noise where they are not there.
struct Trial {
  data::ImageSet images;
  bool noise = false;
};

Trial trial_images(const train::Checkpoint& checkpoint, const ExportArguments& a) {
  const run::TrainConfig& config = checkpoint.config;
  std::string problem;
  try {
    data::DataRequest request = train::test_request(checkpoint, "", a.data_dir);
    request.follow_links = a.follow_links;
    request.threads = all_threads();
    Trial out{data::load_data(request).test, false};
    const data::ImageShape found = out.images.shape(), &expected = checkpoint.image;
    if (found.height == expected.height && found.width == expected.width &&
        found.channels == expected.channels)
      return out;
    problem = "its images have another shape than the run's";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  Trial noise{exporter::noise_images(checkpoint.image), true};
  complain(fmt::format("warning: no test images of {} ({}): compared on {} random images",
                       config.data, problem, noise.images.count()));
  return noise;
}

/// "10,000 test images: 0.33 % wrong, as the run's own; logits within 2.1e-06 (largest 24.3)"
std::string agreement_text(const exporter::Agreement& agreement, bool noise) {
  const std::string logits =
      fmt::format("logits within {:.1e} (largest {:.3g})", agreement.largest, agreement.scale);
  if (noise) return fmt::format("{} random images: {}", agreement.images, logits);
  return fmt::format("{} test images: {:.2f} % wrong, the run's own net {:.2f} %; {}",
                     agreement.images, agreement.model_error_percent(),
                     agreement.own_error_percent(), logits);
}

class Exporter {
 public:
  Exporter(const ExportArguments& a)
      : checkpoint_(std::filesystem::is_directory(a.run) ? train::read_best(a.run)
                                                         : train::read_checkpoint(a.run)),
        trial_(trial_images(checkpoint_, a)),
        net_(exporter::plain_net(checkpoint_, exporter::parse_input_form(a.input))) {
    note_error();
  }

  void onnx(const std::string& path) {
    const std::string bytes = exporter::onnx_model(net_);
    const exporter::OnnxModel model(bytes);
    write(path, bytes, net_, [&](const torch::Tensor& x) { return model(x); });
  }
  void script(const std::string& path) {
    const std::string bytes = exporter::script_model(net_);
    const exporter::ScriptModel model(bytes);
    write(path, bytes, net_, [&](const torch::Tensor& x) { return model(x); });
  }
  /// The page has weights alone in it, which its script runs: those are compared.
  void page(const std::string& path) {
    exporter::PlainNet net = exporter::plain_net(checkpoint_, exporter::InputForm::floats);
    const std::string text = exporter::demo_page(
        net, classes(), checkpoint_.scale, trial_.noise ? data::ImageSet{} : trial_.images,
        data::is_own_data(checkpoint_.config.data), facts_line());
    write(path, text, net, [&](const torch::Tensor& x) { return net.net->forward(x); });
    constexpr size_t comfortable = 3'000'000;
    if (text.size() > comfortable)
      complain(
          fmt::format("warning: {}: {:.1f} MB, as the net has {} weights; pages above 3 MB "
                      "are slow to open",
                      path, static_cast<double>(text.size()) / 1e6, weights()));
  }

 private:
  /// Into the facts, so that a file says what to expect of it.
  void note_error() {
    const auto& best = checkpoint_.state.best;
    if (best.epoch > 0)
      net_.facts.push_back({"test_error_percent", fmt::format("{:.4g}", best.test_error_percent)});
    net_.facts.push_back({"classes", fmt::format("{}", fmt::join(classes(), ", "))});
  }
  const std::vector<std::string>& classes() const { return checkpoint_.classes; }
  std::string facts_line() const {
    std::string out = fmt::format("{} on {}, {} epoch{}", run::layers_text(checkpoint_.config),
                                  data::data_title(checkpoint_.config.data),
                                  checkpoint_.state.epoch, checkpoint_.state.epoch == 1 ? "" : "s");
    if (checkpoint_.state.best.epoch > 0)
      out += fmt::format("; test error {:.2f} %", checkpoint_.state.best.test_error_percent);
    return out;
  }
  int64_t weights() const {
    int64_t out = 0;
    for (const auto& p : net_.net->parameters()) out += p.numel();
    return out;
  }

  /// The file gets its name only where it answers as the run does.
  void write(const std::string& path, const std::string& bytes, const exporter::PlainNet& net,
             const exporter::Model& model) {
    const exporter::Agreement agreement = exporter::compare(checkpoint_, net, model, trial_.images);
    const std::string text = agreement_text(agreement, trial_.noise);
    if (!agreement.holds())
      throw std::runtime_error(
          fmt::format("{}: not written: expected the answers of the run's own net, found {}, {} "
                      "answers differ",
                      path, text, agreement.differ));
    io::write_output(path, bytes);
    say("{}: {:.2f} MB, {}\n", path, static_cast<double>(bytes.size()) / 1e6, text);
  }

  train::Checkpoint checkpoint_;
  Trial trial_;
  exporter::PlainNet net_;
};

int export_run(const ExportArguments& a) {
  check_names(a);
  train::use_threads(all_threads(a.threads));
  Exporter exporter(a);
  for (const std::string& path : a.outputs)
    if (base::ends_with(path, ".onnx"))
      exporter.onnx(path);
    else
      exporter.script(path);
  if (!a.page.empty()) exporter.page(a.page);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "export", "Writes a trained net as ONNX, TorchScript, or a page to try it in");
  auto a = std::make_shared<ExportArguments>();
  verb->add_option("RUN", a->run, "Folder of a run (its best epoch), or a checkpoint in one")
      ->required();
  verb->add_option("-o,--out", a->outputs, "FILE.onnx or FILE.pt (TorchScript); may be given twice")
      ->type_name("FILE")
      ->default_str("none")
      ->allow_extra_args(false);
  verb->add_option("--page", a->page,
                   "FILE.html: a page that runs the net on drawings and pictures")
      ->type_name("FILE")
      ->default_str("none");
  verb->add_option("--input", a->input,
                   "What the model takes: bytes (0 to 255), floats (0 to 255), unit (floats 0 to "
                   "1), scaled (floats, already normalised)")
      ->type_name("bytes|floats|unit|scaled")
      ->capture_default_str();
  add_data_directory(*verb, a->data_dir)
      ->description("Folder of the data; the file is compared with the net on its test images");
  add_threads(*verb, a->threads);
  add_follow_links(*verb, a->follow_links);
  verb->callback([&run, a] { run = [a] { return export_run(*a); }; });
}

}  // namespace orthobatch::cli
