// Checkpoints of 0.1: read as they were, without running anything in them.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <sstream>

#include "archive_writer.h"
#include "io/archive_0_1.h"
#include "made_checkpoint.h"

namespace orthobatch {
namespace {

using test::archive_0_1;
using test::bytes_of;
using test::files_of;
using test::made;
using test::refusal;
using test::sealed;
using test::Session;
using test::zip_of;
using test::ZipFiles;

const std::string& made_archive() {
  static const std::string archive =
      archive_0_1(made().config_text, state_text(made().state), made().net, *made().optimizer);
  return archive;
}

void expect_refused(const std::string& archive, const std::string& with) {
  const std::string said = refusal(bytes_of(sealed(archive)));
  EXPECT_NE(said.find(with), std::string::npos) << "expected: " << with << "\n  said: " << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

TEST(ArchivesOf01, HoldWhatOurOwnFormatHolds) {
  const Checkpoint old = parse_checkpoint(bytes_of(sealed(made_archive())), "a");
  const Checkpoint ours = parse_checkpoint(bytes_of(made().text()), "a");
  EXPECT_TRUE(old.of_0_1);
  EXPECT_FALSE(ours.of_0_1);
  EXPECT_EQ(to_json(old.config), to_json(ours.config));
  EXPECT_EQ(state_text(old.state), state_text(ours.state));
  const auto all = [](const Checkpoint& c) {
    std::vector<torch::Tensor> out = c.net->parameters();
    for (const torch::Tensor& t : c.net->buffers()) out.push_back(t);
    for (const torch::Tensor& t : c.momenta) out.push_back(t);
    return out;
  };
  const auto left = all(old), right = all(ours);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(right[i])) << i;
}

TEST(ArchivesOf01, AFileOfThatTimeIsRead) {
  const Checkpoint read = read_checkpoint(ORTHOBATCH_TEST_FILES "/checkpoint-0.1.pt");
  EXPECT_EQ(read.state.epoch, 1);
  EXPECT_EQ(read.config.net.blocks.size(), 1u);
  EXPECT_EQ(read.momenta.size(), 7u);  // weights and biases of convolution, layer and FC, and S
  EXPECT_NEAR(read.net->fc->weight.norm().item<double>(), 0.7, 0.7);
}

// Neither a head nor a padding in its config, neither a curve nor exchanges in its state.
TEST(ArchivesOf01, ConfigAndStateOfThatTimeMeanWhatTheyMeant) {
  TrainConfig config = test::small_config("BN");
  config.net.head = Head::average;
  config.net.padding = Padding::same;
  config.net.initial_deviation = 0.5;
  nlohmann::json text = nlohmann::json::parse(made().config_text);
  text.update(nlohmann::json(to_json(config)));
  text["version"] = "0.1.0";
  for (const char* key : {"head", "padding", "flat_exponent", "initial_deviation"}) text.erase(key);
  nlohmann::json state = nlohmann::json::parse(state_text(made().state));
  for (const char* key : {"curve", "exchanges"}) state.erase(key);
  const DigitNet net(test::small_data().train.shape(), config.net);
  const torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  const Checkpoint read = parse_checkpoint(
      bytes_of(sealed(archive_0_1(text.dump(), state.dump(), net, optimizer))), "a");
  EXPECT_EQ(to_json(read.config), to_json(config));
  EXPECT_EQ(read.state.step, 3);
  EXPECT_TRUE(read.net->fc->weight.equal(net->fc->weight));
  EXPECT_TRUE(read.momenta.empty()) << "no step was made";
}

/// A run's checkpoints as 0.1 would have written them.
void make_old(const std::string& run) {
  for (const char* name : {"/last", "/previous", "/best"}) {
    const std::string path = run + name + ".safetensors";
    if (!file_exists(path)) continue;
    const Checkpoint read = read_checkpoint(path);
    torch::optim::SGD optimizer(read.net->parameters(),
                                torch::optim::SGDOptions(0.125).momentum(0.9));
    restore_momenta(read.momenta, read.net, optimizer);
    write_file(run + name + ".pt",
               sealed(archive_0_1(read_text(run + "/config.json"), state_text(read.state), read.net,
                                  optimizer)));
    std::filesystem::remove(path);
  }
}

TEST(ArchivesOf01, ARunOfThatTimeGoesOnBitForBit) {
  const TemporaryFolder folder;
  TrainConfig config = test::small_config("ZCA(1e-5,1e12)->W");
  test::whole_run(folder.path("whole"), config);
  config.epochs = 2;
  config.checkpoint_minutes = 1e-9;  // so that the one before the last is inside an epoch
  test::whole_run(folder.path("old"), config);
  make_old(folder.path("old"));
  std::filesystem::rename(folder.path("old/previous.pt"), folder.path("old/last.pt"));
  EXPECT_EQ(best_checkpoint(folder.path("old")), folder.path("old/best.pt"));
  config.epochs = 4;
  {
    Session session(folder.path("old"), config);
    Resumption run = open_run(session.folder, {{"epochs", 4}});
    EXPECT_EQ(run.complaint, "");
    EXPECT_EQ(run.checkpoint->path, folder.path("old/last.pt"));
    EXPECT_EQ(run.checkpoint->state.step, 10);
    session.trainer.resume(std::move(*run.checkpoint), run.changed);
    EXPECT_TRUE(file_exists(folder.path("old/last.pt"))) << "there is no other to go back to yet";
    EXPECT_EQ(session.trainer.run(), Trainer::Outcome::finished);
  }
  test::expect_same_run(folder.path("whole"), folder.path("old"));
  for (const char* name : {"old/last.pt", "old/previous.pt", "old/best.pt"})
    EXPECT_FALSE(file_exists(folder.path(name))) << name;
}

// --------------------------------------------------------------------- hostile archives

// torch's reader runs it.
TEST(ArchivesOf01, OneWithSetstateIsRefused) {
  torch::jit::Module module("Checkpoint");
  module.register_attribute("format", c10::StringType::get(), "orthobatch checkpoint 1");
  module.define(R"(
def __getstate__(self):
    return self.format
def __setstate__(self, state: str):
    self.format = state
)");
  std::ostringstream stream;
  module.save(stream);
  expect_refused(stream.str(), "found code in it, which is not run");
  // In an archive that is a checkpoint otherwise.
  ZipFiles files = files_of(made_archive());
  for (auto& [name, content] : files)
    if (name == "archive/code/__torch__.py")
      content += "  def __setstate__(self, state: str) -> None:\n    return None\n";
  expect_refused(zip_of(files), "found code in it, which is not run");
}

/// An archive with one of its files changed.
std::string with_file(const std::string& name, const std::function<void(std::string&)>& change) {
  ZipFiles files = files_of(made_archive());
  bool found = false;
  for (auto& [key, content] : files)
    if (key == "archive/" + name) {
      change(content);
      found = true;
    }
  EXPECT_TRUE(found) << name;
  return zip_of(files);
}

TEST(ArchivesOf01, CodeIsRefusedHoweverItIsWritten) {
  EXPECT_EQ(refusal(bytes_of(sealed(zip_of(files_of(made_archive()))))), "");
  for (const char* line :
       {"import os\n", "  def f(self): pass\n", "  x = os.system(\"\")\n", "  x : f(1)\n",
        "class Other(Module):\n", "  __parameters__ = [\"a\", f(), ]\n", "\tx : str\n",
        "  __annotations__[\"a\"] = f(1)\n", "  x : str; f\n", "f()\n"})
    expect_refused(with_file("code/__torch__.py", [&](std::string& c) { c += line; }),
                   "code in it");
}

TEST(ArchivesOf01, AStorageCutShortIsRefused) {
  expect_refused(with_file("data/0", [](std::string& c) { c.resize(c.size() / 2); }),
                 "numbers in its storage, found ");
  expect_refused(with_file("data/0", [](std::string& c) { c += c; }), "numbers in its storage");
  ZipFiles files = files_of(made_archive());
  files.erase(files.begin());
  expect_refused(zip_of(files), "no storage");
}

TEST(ArchivesOf01, AClassThatIsNotACheckpointsIsRefused) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    return with_file("data.pkl", [&](std::string& c) {
      const size_t at = c.find(from);
      ASSERT_NE(at, std::string::npos);
      c.replace(at, from.size(), to);
    });
  };
  expect_refused(replaced("ctorch._utils\n_rebuild_tensor_v2\n", "cos\nsystem\n"),
                 "pickle: expected a class of a checkpoint");
  expect_refused(replaced("ctorch\nFloatStorage\n", "ctorch\nUntypedStorage\n"),
                 "pickle: expected a class of a checkpoint");
  expect_refused(replaced("ctorch\nFloatStorage\n", "ctorch\nDoubleStorage\n"),
                 "numbers in its storage");
  expect_refused(replaced("ccollections\nOrderedDict\n", "cbuiltins\neval\n"),
                 "pickle: expected a class of a checkpoint");
  for (const char* code : {"i", "o", "\x92", "\x93", "0", "P"})  // classes and calls by other ways
    expect_refused(with_file("data.pkl", [&](std::string& c) { c.insert(2, code); }),
                   "pickle: expected an opcode of a checkpoint");
  expect_refused(with_file("data.pkl", [](std::string& c) { c.resize(c.size() / 2); }), "pickle: ");
}

TEST(ArchivesOf01, APickleThatHoldsItselfOrUnfoldsIsRefused) {
  const auto pickle = [](const std::string& text) {
    return with_file("data.pkl", [&](std::string& c) { c = text; });
  };
  const std::string head("\x80\2", 2), name("X\1\0\0\0a", 6);
  expect_refused(
      pickle(head + "}q" + std::string(1, '\0') + "(" + name + "h" + std::string(1, '\0') + "u."),
      "parts with one owner");
  std::string nested = head;
  for (int i = 0; i < 100000; ++i) nested += "}(" + name;
  expect_refused(pickle(nested), "pickle: expected few marks");
  std::string tuples = head + ")";
  for (int i = 0; i < 100; ++i) tuples += std::string("q\0(h\0t", 6);
  expect_refused(pickle(tuples + "."), "pickle: ");
}

TEST(ArchivesOf01, ABadZipDirectoryIsRefused) {
  const std::string& good = made_archive();
  const std::string plain = zip_of(files_of(good));
  expect_refused(zip_of(files_of(good), 8), "compressed");
  expect_refused(zip_of(files_of(good), 12), "stored or deflated");
  ZipFiles twice = files_of(good);
  twice.push_back(twice.front());
  expect_refused(zip_of(twice), "each name once");
  ZipFiles outside = files_of(good);
  outside.emplace_back("elsewhere/data/0", "");
  expect_refused(zip_of(outside), "one folder");
  ZipFiles more = files_of(good);
  more.emplace_back("archive/run.sh", "");
  expect_refused(zip_of(more), "the entries of a checkpoint");
  const size_t end = plain.size() - 22;
  const auto changed = [&](size_t at, uint32_t value, size_t size) {
    std::string out = plain;
    for (size_t i = 0; i < size; ++i) out[at + i] = static_cast<char>(value >> (8 * i) & 255);
    return out;
  };
  const auto number = [&](size_t at) {
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n |= uint32_t{static_cast<uint8_t>(plain[at + i])} << (8 * i);
    return n;
  };
  const size_t directory = number(end + 16);
  expect_refused(changed(end + 16, 0xfffffff0u, 4), "zip directory");  // begins beyond the file
  expect_refused(changed(end + 12, 0xfffffff0u, 4), "zip directory");  // ends there
  expect_refused(changed(end + 10, 3, 2), "something after them");     // too few
  expect_refused(changed(directory + 20, 0x7fffffffu, 4), "zip directory");  // an entry too long
  expect_refused(changed(directory + 42, 0x7fffffffu, 4), "a header before each entry");
  const size_t second = directory + 46 + files_of(good).front().first.size();
  expect_refused(changed(second + 42, 0, 4), "one name of an entry");  // at the place of the first
}

TEST(ArchivesOf01, OverlappingEntriesAreRefused) {
  // The first holds the header and the bytes of the second.
  const std::string inner = zip_of({{"archive/data/1", "1234"}});
  std::string outer =
      zip_of({{"archive/data/0", inner.substr(0, 30 + 14 + 4)}, {"archive/data/1", "1234"}});
  const size_t directory = outer.size() - 22 - 2 * (46 + 14);
  const size_t inside = 30 + 14;
  for (size_t i = 0; i < 4; ++i)
    outer[directory + 46 + 14 + 42 + i] = static_cast<char>(inside >> (8 * i) & 255);
  expect_refused(outer, "two that overlap");
}

TEST(ArchivesOf01, ADamagedOneIsRefused) {
  const std::string good = sealed(made_archive());
  EXPECT_EQ(refusal(bytes_of(good)), "");
  for (size_t at = 4; at < good.size(); at += 1 + good.size() / 100) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_NE(refusal(bytes_of(flipped)).find("damaged"), std::string::npos) << at;
  }
  for (const size_t keep : {size_t{4}, size_t{100}, good.size() / 2, good.size() - 1})
    EXPECT_NE(refusal(bytes_of(good.substr(0, keep))).find("damaged"), std::string::npos) << keep;
}

}  // namespace
}  // namespace orthobatch
