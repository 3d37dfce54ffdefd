#include "data/own_data.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "base/text.h"
#include "data/idx_pairs.h"
#include "data/image_file.h"
#include "data/image_size.h"
#include "data/links.h"
#include "data/listing.h"
#include "data/rescale.h"
#include "io/bounds.h"
#include "io/file.h"

namespace orthobatch::data {
namespace {

struct Item {
  io::Pixels pixels;
  int label = 0;
  bool test = false;
};

void require_memory(int64_t images, const ImageSize& size, const std::string& folder) {
  constexpr double of_an_image = 128;  // beside its pixels
  const double each = 3.0 * size.width * size.height + of_an_image;
  io::require_memory(static_cast<double>(images) * each, folder,
                     std::to_string(images) + " images of " + size_text(size.width, size.height),
                     "; --image-size makes them smaller");
}

Sizes sizes_of(const ImageListing& listing) {
  Sizes sizes;
  for (const ImageFile& file : listing.files) ++sizes[{file.size.width, file.size.height}];
  return sizes;
}

void require_images(const ImageListing& listing, const std::string& folder) {
  if (!listing.files.empty()) return;
  std::string found = "none";
  if (!listing.bad.empty())
    found += " among " + std::to_string(listing.bad.size()) +
             " files, the first: " + listing.bad.front();
  throw io::FileError(folder, "images", "PNG or JPEG files in folders of classes", found);
}

/// Reads the images of a folder; those that cannot be decoded are told in `data`.
std::vector<Item> read_items(const ImageListing& listing, const ImageSize& size,
                             const DataRequest& request, DataSet& data) {
  const std::vector<ImageFile>& files = listing.files;
  std::vector<Item> items(files.size());
  std::vector<std::string> why(files.size());
  for_each_index(
      static_cast<int64_t>(files.size()), request.threads,
      [&](int64_t i) {
        items[i].label = files[i].label;
        items[i].test = files[i].test;
        if (request.test_only && !files[i].test) return;
        try {
          io::Pixels image = read_image(files[i].path, size.width, size.height);
          items[i].pixels = is_grey(image) ? with_channels(std::move(image), 1) : std::move(image);
        } catch (const io::FileError& error) {
          why[i] = error.what();
        }
      },
      request.progressed);
  for (const std::string& reason : why)
    if (!reason.empty()) data.bad.push_back(reason);
  items.erase(std::remove_if(items.begin(), items.end(),
                             [](const Item& item) { return item.pixels.bytes.empty(); }),
              items.end());
  return items;
}

std::vector<Item> idx_items(const ImageSet& train, const ImageSet& test, const ImageSize& size) {
  std::vector<Item> items;
  for (const ImageSet* set : {&train, &test})
    for (int64_t i = 0; i < set->count(); ++i) {
      io::Pixels image{set->width, set->height, set->channels, {}};
      image.bytes.assign(set->image(i), set->image(i) + set->image_size());
      image = rescale(std::move(image), size.width, size.height);
      items.push_back({is_grey(image) ? with_channels(std::move(image), 1) : std::move(image),
                       set->labels[i], set == &test});
    }
  return items;
}

/// The label of each class among those that are kept, −1: none; `data` gets their names. A class
/// without a training image cannot be learned.
std::vector<int> keep_classes(const std::vector<Item>& items,
                              const std::vector<std::string>& classes, DataSet& data) {
  std::vector<int64_t> train(classes.size()), test(classes.size());
  for (const Item& item : items) ++(item.test ? test : train)[item.label];
  std::vector<int> place(classes.size(), -1);
  for (size_t k = 0; k < classes.size(); ++k) {
    if (train[k] > 0) {
      place[k] = static_cast<int>(data.classes.size());
      data.classes.push_back(classes[k]);
    } else {
      data.notes.push_back("class " + classes[k] + " skipped: no training image, " +
                           std::to_string(test[k]) + " to test");
    }
  }
  return place;
}

/// The labels that a trained net has for the classes.
std::vector<int> match_classes(const std::vector<Item>& items,
                               const std::vector<std::string>& classes, const DataRequest& request,
                               DataSet& data) {
  data.classes = request.classes;
  std::vector<int> place(classes.size(), -1);
  for (size_t k = 0; k < classes.size(); ++k) {
    const auto it = std::find(data.classes.begin(), data.classes.end(), classes[k]);
    if (it != data.classes.end()) place[k] = static_cast<int>(it - data.classes.begin());
  }
  for (const Item& item : items)
    if (place[item.label] < 0)
      throw std::invalid_argument(
          base::printable(request.name) + ": classes: expected those of the net, " +
          base::join_choices(data.classes) + ", found " + classes[item.label] + " too");
  return place;
}

void fill_sets(std::vector<Item>& items, const std::vector<int>& place, const ImageSize& size,
               int channels, DataSet& data) {
  for (ImageSet* set : {&data.train, &data.test}) {
    set->width = size.width, set->height = size.height, set->channels = channels;
    set->classes = static_cast<int>(data.classes.size());
  }
  data.train.name = data.name + " train";
  data.test.name = data.name + " test";
  for (const bool test : {false, true}) {
    ImageSet& set = test ? data.test : data.train;
    const auto belongs = [&](const Item& item) {
      return item.test == test && place[item.label] >= 0;
    };
    set.pixels.reserve(std::count_if(items.begin(), items.end(), belongs) * set.image_size());
    for (Item& item : items) {
      if (!belongs(item)) continue;
      const io::Pixels image = with_channels(std::move(item.pixels), channels);
      set.pixels.insert(set.pixels.end(), image.bytes.begin(), image.bytes.end());
      set.labels.push_back(static_cast<Label>(place[item.label]));
    }
  }
}

void finish(std::vector<Item> items, const std::vector<std::string>& classes, const ImageSize& size,
            const DataRequest& request, DataSet& data) {
  const std::vector<int> place = request.classes.empty()
                                     ? keep_classes(items, classes, data)
                                     : match_classes(items, classes, request, data);
  const auto colour = [](const Item& item) { return item.pixels.channels == 3; };
  const int channels = request.shape ? static_cast<int>(request.shape->channels)
                       : std::any_of(items.begin(), items.end(), colour) ? 3
                                                                         : 1;
  fill_sets(items, place, size, channels, data);
  if (data.classes.size() < 2)
    throw io::FileError(data.name, "classes", "two or more with images",
                        data.classes.empty() ? "none" : "one, " + data.classes.front());
  if (data.test.count() == 0)
    throw io::FileError(
        data.name, "test images",
        "at least one: two images or more in a class, or a folder test beside train", "none");
}

/// The classes are the labels that occur.
void load_from_idx(const std::vector<IdxPair>& pairs, const DataRequest& request, DataSet& data) {
  ImageSet train, test;
  load_idx_pairs(pairs, train, test);
  Sizes sizes;
  sizes[{train.width, train.height}] += train.count();
  if (test.count() > 0) sizes[{test.width, test.height}] += test.count();
  const ImageSize size = choose_size(sizes, request, data.notes);
  require_memory(train.count() + test.count(), size, data.folder);
  std::map<Label, Label> place;
  for (const ImageSet* set : {&train, &test})
    for (const Label label : set->labels) place[label] = 0;
  std::vector<std::string> names;
  for (auto& [label, index] : place) {
    index = static_cast<Label>(names.size());
    names.push_back(std::to_string(label));
  }
  for (ImageSet* set : {&train, &test})
    for (Label& label : set->labels) label = place[label];
  finish(idx_items(train, test, size), names, size, request, data);
}

double seconds_from(std::chrono::steady_clock::time_point& start) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - start).count();
  start = now;
  return seconds;
}

}  // namespace

std::string own_folder(const DataRequest& request) {
  std::string folder = request.name;
  if (!request.data_dir.empty()) {
    // The name may be a stranger's: it chooses no folder but one in that which the user names.
    const std::string name = std::filesystem::path(request.name).filename().string();
    const std::string inner = io::join_path(request.data_dir, name);
    const bool there = !name.empty() && name != "." && name != ".." && io::file_exists(inner) &&
                       !LinkRule(request.data_dir, request.follow_links).refuses(inner);
    folder = there ? inner : request.data_dir;
  }
  std::error_code ignored;
  const auto status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::is_directory(status))
    throw io::FileError(folder, "data", "a folder with a folder of images for each class",
                        std::filesystem::exists(status) ? "no folder" : "nothing");
  return folder;
}

OwnSurvey survey_own(const DataRequest& request) {
  const std::string folder = own_folder(request);
  const std::vector<IdxPair> pairs = find_idx_pairs(folder, request.follow_links);
  OwnSurvey out;
  std::vector<std::string> notes;
  ImageSize size;
  if (!pairs.empty()) {
    ImageSet train, test;
    load_idx_pairs(pairs, train, test);
    size = choose_size({{{train.width, train.height}, train.count()}}, request, notes);
    out.train_images = train.count();
    out.grey = train.channels == 1;
  } else {
    const ImageListing listing =
        list_images(folder, request.follow_links, request.threads, request.progressed);
    require_images(listing, folder);
    size = choose_size(sizes_of(listing), request, notes);
    out.train_images = std::count_if(listing.files.begin(), listing.files.end(),
                                     [](const ImageFile& file) { return !file.test; });
    out.grey = std::all_of(listing.files.begin(), listing.files.end(),
                           [](const ImageFile& file) { return file.size.grey; });
  }
  if (request.subset > 0) out.train_images = std::min(out.train_images, request.subset);
  out.width = size.width, out.height = size.height;
  return out;
}

DataSet load_own(const DataRequest& request) {
  auto start = std::chrono::steady_clock::now();
  DataSet data;
  data.name = request.name;
  data.own = true;
  const std::string folder = own_folder(request);
  data.folder = absolute_folder(folder);
  if (const std::vector<IdxPair> pairs = find_idx_pairs(folder, request.follow_links);
      !pairs.empty()) {
    load_from_idx(pairs, request, data);
    data.reading_seconds = seconds_from(start);
    return data;
  }
  ImageListing listing =
      list_images(folder, request.follow_links, request.threads, request.progressed);
  data.notes = std::move(listing.notes);
  require_images(listing, folder);
  const ImageSize size = choose_size(sizes_of(listing), request, data.notes);
  require_memory(static_cast<int64_t>(listing.files.size()), size, folder);
  data.listing_seconds = seconds_from(start);
  data.bad = std::move(listing.bad);
  std::vector<Item> items = read_items(listing, size, request, data);
  std::sort(data.bad.begin(), data.bad.end(), base::comes_before);
  finish(std::move(items), listing.classes, size, request, data);
  data.reading_seconds = seconds_from(start);
  return data;
}

}  // namespace orthobatch::data
