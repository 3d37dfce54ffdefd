// orthobatch eval: what a trained net answers, over the whole test set.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <atomic>
#include <filesystem>

#include "base/text.h"
#include "cli/confusion.h"
#include "cli/options.h"
#include "cli/pictures.h"
#include "cli/reading.h"
#include "cli/verbs.h"
#include "data/catalogue.h"
#include "io/file.h"
#include "io/json.h"
#include "io/png.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/resume.h"
#include "train/run_folder.h"
#include "train/threads.h"

namespace orthobatch::cli {
namespace {

struct EvalArguments {
  std::string checkpoint, data, data_dir, picture;
  bool json = false, strict = false, follow_links = false;
  int threads = 0;
};

/// Beside the checkpoint where the user names no place: a run that cannot be written to is no less
/// worth evaluating. Says what became of it.
std::string save_picture(const EvalArguments& a, const std::string& folder, const io::Bytes& png) {
  const std::string path = !a.picture.empty() ? a.picture : io::join_path(folder, "confusion.png");
  try {
    if (a.picture.empty())
      io::write_file(path, png.data(), png.size());
    else
      io::write_output(path, png.data(), png.size());
    return fmt::format("Confusion matrix as a picture: {}\n", path);
  } catch (const io::FileError& error) {
    if (!a.picture.empty()) throw;
    return fmt::format("Could not write the picture: {}; choose another file with --picture\n",
                       error.what());
  }
}

/// Images of one's own come as the net takes them, whatever they are in their files.
data::DataSet data_for(const EvalArguments& a, const train::Checkpoint& checkpoint) {
  data::DataRequest request = train::test_request(
      checkpoint, a.data.empty() ? "" : or_usage_error([&] { return data::resolve_data(a.data); }),
      a.data_dir);
  request.follow_links = a.follow_links;
  request.threads = all_threads(a.threads);
  return read_data(std::move(request), {false, a.json, a.strict});
}

/// docs/runs.md has its members.
std::string json_of(const train::Evaluation& result, const train::Checkpoint& checkpoint,
                    const std::string& data) {
  nlohmann::ordered_json out = {{"checkpoint", checkpoint.path},
                                {"layer", run::layers_text(checkpoint.config)},
                                {"data", data},
                                {"epoch", checkpoint.state.epoch},
                                {"images", result.images},
                                {"wrong", result.wrong},
                                {"test_error_percent", result.error_percent()},
                                {"test_loss", result.loss},  // null where it is not finite
                                {"classes", checkpoint.classes},
                                {"confusion", result.confusion}};
  return io::json_text(out);
}

int evaluate_checkpoint(const EvalArguments& a) {
  const bool folder = std::filesystem::is_directory(a.checkpoint);
  const std::string path = folder ? io::join_path(a.checkpoint, run::best_name) : a.checkpoint;
  train::Checkpoint checkpoint =
      folder ? train::read_best(a.checkpoint) : train::read_checkpoint(path);
  const run::TrainConfig& config = checkpoint.config;
  const data::DataSet data = data_for(a, checkpoint);
  const std::string& name = data.name;
  const data::ImageShape& shape = checkpoint.image;
  const data::ImageSet& test = data.test;
  if (shape.height != test.height || shape.width != test.width || shape.channels != test.channels)
    throw std::invalid_argument(fmt::format(
        "{}: images of {}: expected [{},{},{}] (rows, columns, channels) as the net was "
        "trained on, found [{},{},{}]",
        path, name, shape.height, shape.width, shape.channels, test.height, test.width,
        test.channels));
  if (data.classes != checkpoint.classes)
    throw std::invalid_argument(fmt::format("{}: classes of {}: expected {}, found {}", path, name,
                                            base::join_choices(checkpoint.classes),
                                            base::join_choices(data.classes)));

  train::use_threads(all_threads(a.threads));
  // The net's own scale: another set's would be another input. A signal ends the program: there is
  // nothing to save.
  const std::atomic<bool> never{false};
  const auto result = train::evaluate(checkpoint.net, test, checkpoint.scale, never);
  const std::string picture =
      save_picture(a, io::parent_path(path),
                   io::encode_png(confusion_picture(result->confusion, checkpoint.classes)));
  if (a.json) {
    say("{}\n", json_of(*result, checkpoint, name));
    return 0;
  }
  say("{}: {} on {}, {} epoch{}\n", path, run::layers_text(config), name, checkpoint.state.epoch,
      checkpoint.state.epoch == 1 ? "" : "s");
  say("test error {:.2f} % ({} of {}), loss {:.5f}\n\n", result->error_percent(), result->wrong,
      result->images, result->loss);
  say("Predictions for each true class:\n{}\n{}",
      confusion_table(result->confusion, checkpoint.classes), picture);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("eval",
                                  "Measures error, loss and confusion matrix of a trained "
                                  "net");
  auto a = std::make_shared<EvalArguments>();
  verb->add_option("RUN", a->checkpoint, "Folder of a run (its best epoch), or a checkpoint in one")
      ->required();
  verb->add_option("--data", a->data,
                   "Another data set of the same shape, or a folder with the same classes, whose "
                   "images are scaled")
      ->type_name(fmt::format("{}|DIR", fmt::join(data::data_names(), "|")))
      ->default_str("that of the run");
  add_data_directory(*verb, a->data_dir);
  add_follow_links(*verb, a->follow_links);
  verb->add_option("--picture", a->picture, "File of the confusion matrix as a picture")
      ->type_name("FILE")
      ->default_str("confusion.png beside the checkpoint");
  add_threads(*verb, a->threads);
  verb->add_flag("--strict", a->strict, "Fail on a file that is no image, in place of skipping it");
  verb->add_flag("--json", a->json, "JSON in place of the table");
  verb->callback([&run, a] { run = [a] { return evaluate_checkpoint(*a); }; });
}

}  // namespace orthobatch::cli
