#include "data/listing.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "base/text.h"
#include "data/image_file.h"
#include "data/images.h"
#include "data/links.h"
#include "io/file.h"

namespace orthobatch::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t held_out_of = 10;
constexpr int deepest = 32;

/// FNV-1a, its bits mixed once more.
uint64_t name_hash(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

/// What systems leave in any folder.
bool is_passed_over(const std::string& name) {
  static const std::vector<std::string> names = {"Thumbs.db", "ehthumbs.db", "desktop.ini",
                                                 "Desktop.ini", "__MACOSX"};
  return name.empty() || name[0] == '.' ||
         std::find(names.begin(), names.end(), name) != names.end();
}

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

/// The first of `wanted`, in letters of any size, that is there; empty: none is.
std::string first_called(const std::vector<std::string>& names,
                         const std::vector<std::string>& wanted) {
  for (const std::string& word : wanted)
    for (const std::string& name : names)
      if (in_small_letters(name) == word) return name;
  return "";
}

bool has_image_name(const std::string& name) {
  const std::string end = in_small_letters(fs::path(name).extension().string());
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

/// Names of what is in a folder, sorted. Throws FileError where it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  while (!error && it != fs::directory_iterator()) {
    const std::string name = it->path().filename().string();
    if (!is_passed_over(name)) names.push_back(name);
    it.increment(error);
  }
  if (error) throw io::FileError(folder, "cannot read the folder: " + error.message());
  std::sort(names.begin(), names.end(), base::comes_before);
  return names;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

class Lister {
 public:
  Lister(const std::string& folder, bool follow_links)
      : folder_(folder), links_(folder, follow_links) {}

  ImageListing list() {
    const std::vector<std::string> names = folders_in(folder_);
    const std::string train = first_called(names, {"train", "training"});
    const std::string test = first_called(names, {"test", "testing", "val", "valid", "validation"});
    if (train.empty() || test.empty()) {
      take_classes(folder_, names, std::nullopt);
    } else {
      split_ = true;
      for (const std::string& name : names)
        if (name != train && name != test)
          note(io::join_path(folder_, name), "skipped: it is beside " + train + " and " + test);
      for (const std::string& part : {train, test}) {
        const std::string path = io::join_path(folder_, part);
        take_classes(path, folders_in(path), part == test);
      }
    }
    sort_classes();
    if (out_.classes.size() < 2) {
      const std::string found = out_.classes.empty() ? "none" : "one, " + out_.classes.front();
      const bool lone = out_.classes.size() == 1 && !train.empty();
      throw io::FileError(folder_, "folders", "two or more, one of images for each class",
                          found + (lone ? ": expected a folder test, or val, beside it" : ""));
    }
    return std::move(out_);
  }

  bool split() const { return split_; }

 private:
  /// Those that are classes or parts; images beside them are counted.
  std::vector<std::string> folders_in(const std::string& path) {
    std::vector<std::string> out;
    int64_t images = 0;
    for (const std::string& name : names_in(path)) {
      const std::string inner = io::join_path(path, name);
      if (links_.leads_back(inner))
        note(inner, "skipped: a link back to " + folder_);
      else if (links_.refuses(inner))
        note_refused(inner);
      else if (is_folder(inner))
        out.push_back(name);
      else
        images += has_image_name(name);
    }
    if (images > 0)
      note(path, std::to_string(images) + " images skipped: they are not in the folder of a class");
    return out;
  }

  void take_classes(const std::string& path, const std::vector<std::string>& names,
                    std::optional<bool> test) {
    for (const std::string& name : names) {
      const std::string shown = base::printable(name);
      const auto [known, fresh] = labels_.emplace(shown, Known{name, labels_.size()});
      if (known->second.name != name)
        throw io::FileError(folder_, "folders", "names that look different",
                            "two classes that look like " + shown);
      if (fresh) out_.classes.push_back(shown);
      if (out_.classes.size() > static_cast<size_t>(most_classes))
        throw io::FileError(folder_, "folders", std::to_string(most_classes) + " classes at most",
                            std::to_string(names.size()) + " in " + path);
      walk(io::join_path(path, name), name, static_cast<int>(known->second.label),
           test.value_or(false), 1);
    }
  }

  /// `name` is CLASS/…: what the hash is of.
  void walk(const std::string& path, const std::string& name, int label, bool test, int depth) {
    try {
      if (depth > deepest)
        throw io::FileError(path, "folders within each other", "at most " + std::to_string(deepest),
                            "more");
      for (const std::string& entry : names_in(path)) {
        const std::string inner = io::join_path(path, entry), inner_name = name + "/" + entry;
        if (links_.refuses(inner))
          note_refused(inner);
        else if (!is_folder(inner))
          out_.files.push_back({inner, label, test, name_hash(inner_name), {}});
        else if (is_link(inner))
          note(inner, "skipped: a link to a folder");
        else
          walk(inner, inner_name, label, test, depth + 1);
      }
    } catch (const io::FileError& error) {
      out_.bad.push_back(error.what());
    }
  }

  void sort_classes() {
    std::vector<std::string> sorted = out_.classes;
    std::sort(sorted.begin(), sorted.end(), base::comes_before);
    std::map<std::string, int> place;
    for (size_t k = 0; k < sorted.size(); ++k) place[sorted[k]] = static_cast<int>(k);
    for (ImageFile& file : out_.files) file.label = place.at(out_.classes[file.label]);
    out_.classes = std::move(sorted);
    std::sort(out_.files.begin(), out_.files.end(), [](const ImageFile& a, const ImageFile& b) {
      return std::tie(a.order, a.path) < std::tie(b.order, b.path);
    });
  }

  void note(const std::string& path, const std::string& text) {
    out_.notes.push_back(base::printable(path + ": " + text));
  }
  void note_refused(const std::string& path) {
    note(path, "skipped: a link that leads out of " + folder_ + " (--follow-links follows it)");
  }

  struct Known {
    std::string name;  ///< as the file system has it
    size_t label;
  };

  const std::string folder_;
  const LinkRule links_;
  std::map<std::string, Known> labels_;  ///< by what the class is called
  bool split_ = false;
  ImageListing out_;
};

/// Reads the heads of the files; those that are no images go.
void look_at_all(ImageListing& listing, int threads, const Progressed& progressed) {
  std::vector<ImageFile>& files = listing.files;
  std::vector<std::string> why(files.size());
  for_each_index(
      static_cast<int64_t>(files.size()), threads,
      [&](int64_t i) {
        try {
          files[i].size = look_at_image(files[i].path);
        } catch (const io::FileError& error) {
          why[i] = error.what();
        }
      },
      progressed);
  size_t kept = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!why[i].empty())
      listing.bad.push_back(why[i]);
    else if (kept++ != i)
      files[kept - 1] = std::move(files[i]);
  }
  files.resize(kept);
}

void hold_out(ImageListing& listing) {
  std::vector<std::vector<ImageFile*>> of_class(listing.classes.size());
  for (ImageFile& file : listing.files) of_class[file.label].push_back(&file);
  for (const std::vector<ImageFile*>& files : of_class) {
    if (files.size() < 2) continue;
    bool any = false;
    int64_t left = static_cast<int64_t>(files.size());
    for (ImageFile* file : files) {
      if (file->order % held_out_of != 0 || left == 1) continue;
      file->test = any = true;
      --left;
    }
    if (!any) files.front()->test = true;
  }
}

}  // namespace

ImageListing list_images(const std::string& folder, bool follow_links, int threads,
                         const Progressed& progressed) {
  Lister lister(folder, follow_links);
  ImageListing listing = lister.list();
  look_at_all(listing, threads, progressed);
  if (!lister.split()) hold_out(listing);
  std::sort(listing.bad.begin(), listing.bad.end(), base::comes_before);
  return listing;
}

}  // namespace orthobatch::data
