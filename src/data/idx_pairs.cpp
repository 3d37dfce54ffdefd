#include "data/idx_pairs.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "data/idx.h"
#include "data/links.h"

namespace orthobatch::data {
namespace {

constexpr int byte_labels = 256;
constexpr int64_t tenth = 10;

/// What stands before "-images-idx3-ubyte.gz" and the like; false where the name has no such end.
bool take_end(std::string& name, const std::string& what, const std::vector<std::string>& ranks) {
  if (base::ends_with(name, ".gz")) name.resize(name.size() - 3);
  for (const std::string& rank : ranks)
    for (const char* between : {"-", "."}) {
      const std::string end = what + between + "idx" + rank + "-ubyte";
      if (!base::ends_with(name, end)) continue;
      name.resize(name.size() - end.size());
      name.resize(name.find_last_not_of("-._") + 1);
      return true;
    }
  return false;
}

ImageSet load_idx_pair(const IdxPair& pair) {
  Idx images = parse_idx(read_maybe_gzip(pair.images), pair.images);
  const Idx labels = parse_idx(read_maybe_gzip(pair.labels), pair.labels);
  return images_from_idx(std::move(images), labels, pair.images, pair.labels, byte_labels);
}

void append(const ImageSet& from, int64_t i, ImageSet& to) {
  to.pixels.insert(to.pixels.end(), from.image(i), from.image(i) + from.image_size());
  to.labels.push_back(from.labels[i]);
}

}  // namespace

std::vector<IdxPair> find_idx_pairs(const std::string& folder, bool follow_links) {
  const LinkRule links(folder, follow_links);
  std::map<std::string, IdxPair> by_name;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());  // raw before .gz
  for (const std::string& name : names) {
    std::string start = name;
    const bool images = take_end(start, "images", {"3", "4"});
    if (!images && !take_end(start = name, "labels", {"1"})) continue;
    if (links.refuses(io::join_path(folder, name)))
      throw io::FileError(io::join_path(folder, name), "file", "one in the folder of the data",
                          "a link that leads out of it; --follow-links follows it");
    std::string& place = images ? by_name[start].images : by_name[start].labels;
    if (place.empty()) place = io::join_path(folder, name);
  }
  std::vector<IdxPair> train, test, other;
  std::string found;
  for (const auto& [name, pair] : by_name) {
    if (pair.images.empty() || pair.labels.empty())
      throw io::FileError(
          pair.images + pair.labels, "file",
          pair.images.empty() ? "one with its images beside it" : "one with its labels beside it",
          "none");
    const bool tests = base::ends_with(name, "test") || base::ends_with(name, "t10k");
    (base::ends_with(name, "train") ? train : tests ? test : other).push_back(pair);
    found += (found.empty() ? "" : ", ") + (name.empty() ? "one without a name" : name);
  }
  if (by_name.size() <= 1) {
    for (const auto* some : {&train, &test, &other})
      if (!some->empty()) return *some;
    return {};
  }
  if (train.size() != 1 || test.size() != 1 || !other.empty())
    throw io::FileError(folder, "idx files",
                        "one pair, or one that ends in train and one that ends in test or t10k",
                        found);
  return {train.front(), test.front()};
}

void load_idx_pairs(const std::vector<IdxPair>& pairs, ImageSet& train, ImageSet& test) {
  ImageSet all = load_idx_pair(pairs.front());
  if (pairs.size() == 2) {
    train = std::move(all);
    test = load_idx_pair(pairs.back());
    return;
  }
  for (ImageSet* part : {&train, &test}) {
    part->height = all.height, part->width = all.width, part->channels = all.channels;
    part->classes = all.classes;
  }
  for (int64_t i = 0; i < all.count(); ++i) append(all, i, i % tenth == tenth - 1 ? test : train);
}

}  // namespace orthobatch::data
