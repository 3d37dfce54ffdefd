// Checkpoints: what is written is read bit for bit, and nothing else is taken.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>

#include "made_checkpoint.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using test::bytes_of;
using test::forged;
using test::made;
using test::refusal;

const std::string& made_text() {
  static const std::string text = made().text();
  return text;
}

void expect_refused(const Bytes& bytes, const std::string& with) {
  const std::string said = refusal(bytes);
  EXPECT_NE(said.find(with), std::string::npos) << "expected: " << with << "\n  said: " << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

// ------------------------------------------------------------------------- the format

std::string with_length(std::string header, const std::string& data = "") {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + data;
}

TEST(SafetensorsFiles, AreWhatTheFormatSays) {
  Safetensors file;
  const float numbers[] = {1, 2};
  const int64_t seven = 7;
  file.metadata = {{"a", "b"}};
  file.add("x", "F32", {2, 1}, numbers, sizeof numbers);
  file.add("n", "I64", {}, &seven, sizeof seven);
  const std::string data("\7\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 16);
  const std::string expected =
      with_length(R"({"__metadata__":{"a":"b"},)"
                  R"("n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                  R"("x":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})",
                  data);
  EXPECT_EQ(safetensors_text(file, "a"), expected);
  const Safetensors read = parse_safetensors(bytes_of(expected), "a");
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(std::memcmp(&read.bytes[read.tensors[1].offset], numbers, sizeof numbers), 0);
  EXPECT_EQ(content_checksum(read, "checksum"), content_checksum(file, "checksum"));
}

TEST(SafetensorsFiles, EveryNameTypeShapeOffsetAndSizeIsChecked) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  const std::string good = tensor("F32", "[2]", "[0,8]"), data(8, '\0');
  EXPECT_NO_THROW(parse_safetensors(bytes_of(with_length("{\"x\":" + good + "}", data)), "a"));
  const std::pair<std::string, const char*> cases[] = {
      {"", "size: expected 8 bytes or more"},
      {std::string(7, '\0'), "size: expected 8 bytes or more"},
      {std::string(8, '\xff') + "{}", "header: expected at most 2 bytes"},
      {std::string("\x09\0\0\0\0\0\0\0{}      ", 16), "header: expected at most 8 bytes"},
      {with_length("{\"x\":" + good, data), "header: expected JSON"},
      {with_length("[]"), "header: expected an object"},
      {with_length("{\"x\":" + std::string(200000, '[')), "nested up to 3, found more"},
      {with_length("{\"x\":" + good + ",\"x\":" + good + "}", data), "each name once"},
      {with_length("{\"__metadata__\":{\"a\":1}}"), "__metadata__: \"a\": expected a text"},
      {with_length("{\"__metadata__\":[]}"), "__metadata__: expected an object"},
      {with_length("{\"x\":3}", data), "tensor \"x\": expected an object, found 3"},
      {with_length("{\"x\":" + tensor("F33", "[2]", "[0,8]") + "}", data), "dtype of the format"},
      {with_length("{\"x\":" + tensor("F32", "[-2]", "[0,8]") + "}", data),
       "shape: expected an int"},
      {with_length("{\"x\":" + tensor("F32", "[2.5]", "[0,8]") + "}", data),
       "shape: expected an int"},
      {with_length("{\"x\":" + tensor("F32", "[4611686018427387904,4]", "[0,8]") + "}", data),
       "shape: expected"},
      {with_length("{\"x\":" + tensor("F64", "[3000000000,3000000000]", "[0,8]") + "}", data),
       "more than any holds"},
      {with_length("{\"x\":" + tensor("F32", "[2]", "[8,0]") + "}", data), "expected 8 bytes, as"},
      {with_length("{\"x\":" + tensor("F32", "[2]", "[0,4]") + "}", data), "expected 8 bytes, as"},
      {with_length("{\"x\":" + tensor("F32", "[2]", "[0]") + "}", data),
       "data_offsets: expected two"},
      {with_length("{\"x\":" + tensor("F32", "[2]", "[-8,0]") + "}", data),
       "data_offsets: expected"},
      {with_length("{\"x\":" + good + "}", data + "x"), "tensors: expected 9 bytes"},
      {with_length("{\"x\":" + good + "}", data.substr(1)), "tensors: expected 7 bytes"},
      {with_length("{\"x\":" + tensor("F32", "[2]", "[8,16]") + "}", data + data), "bytes at 0"},
      {with_length("{\"x\":" + good + ",\"y\":" + good + "}", data), "bytes at 8, found at 0"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      parse_safetensors(bytes_of(text), "a");
      ADD_FAILURE() << expected;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << expected << "\n  said: " << error.what();
    }
  }
}

// --------------------------------------------------------------------------- round trip

TEST(Checkpoints, AreReadBitForBit) {
  const Checkpoint read = parse_checkpoint(bytes_of(made_text()), "a");
  EXPECT_EQ(to_json(read.config), to_json(made().config));
  EXPECT_EQ(state_text(read.state), state_text(made().state));
  EXPECT_EQ(read.found, json(describe_data(test::small_data())));
  const auto left = made().net->named_parameters(), right = read.net->named_parameters();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].value().equal(right[i].value())) << left[i].key();
    EXPECT_EQ(left[i].value().strides(), right[i].value().strides()) << left[i].key();
  }
  const auto buffers = made().net->named_buffers();
  for (const auto& item : read.net->named_buffers())
    EXPECT_TRUE(item.value().equal(buffers[item.key()])) << item.key();
  EXPECT_EQ(read.momenta.size(), left.size());
  torch::optim::SGD optimizer(read.net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  restore_momenta(read.momenta, read.net, optimizer);
  const TemporaryFolder folder;
  save_checkpoint(folder.path("again"), made().config_text, read.state, read.net, optimizer);
  EXPECT_EQ(read_text(folder.path("again"), 1 << 24), made_text());
}

TEST(Checkpoints, OfANetWithOneChannelHaveAllItsMomenta) {
  TrainConfig config = test::small_config("LDL(1e-5)->W->Gamma");
  config.net.blocks = {{3, 2, 1, config.net.blocks[0].layer}};
  config.epochs = 1;
  const TemporaryFolder folder;
  test::whole_run(folder.path("a"), config);
  const Checkpoint read = read_checkpoint(folder.path("a/last.safetensors"));
  EXPECT_EQ(read.momenta.size(), read.net->parameters().size());
}

// ------------------------------------------------------------------------------ refusals

TEST(Checkpoints, ADamagedOneIsRefused) {
  const Bytes good = bytes_of(made_text());
  EXPECT_EQ(refusal(good), "");
  for (const size_t keep : {size_t{0}, size_t{7}, size_t{100}, good.size() / 2, good.size() - 1})
    EXPECT_NE(refusal({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(keep)}), "")
        << keep;
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 400) {
    Bytes flipped = good;
    flipped[at] ^= 0x10;
    EXPECT_NE(refusal(flipped), "") << at;
  }
  Bytes flipped = good;
  flipped.back() ^= 1;
  expect_refused(flipped, "it is damaged");
}

TEST(Checkpoints, AFileOfAnotherProgramIsRefused) {
  Safetensors file;
  const std::string other = safetensors_text(file, "a");
  expect_refused(bytes_of(other), "checkpoint: expected its format, found none");
  expect_refused(forged(made_text(), [](Safetensors& f) { f.metadata["format"] = "x\n"; }),
                 "checkpoint format: expected orthobatch checkpoint, found \"x\\n\"");
  expect_refused(bytes_of("text"), "size: expected");
}

TEST(Checkpoints, AStorageCutShortIsRefused) {
  expect_refused(forged(made_text(),
                        [](Safetensors& f) {
                          for (StoredTensor& t : f.tensors)
                            if (t.name == "net.fc.weight") {
                              t.shape = {10, 7};
                              t.size = 280;
                            }
                        }),
                 "tensor net.fc.weight: expected F32 [10,1152], found F32 [10,7]");
}

TEST(Checkpoints, EveryTensorOfTheNetAndNoOtherMustBeThere) {
  const auto changed = [](const char* name, const std::function<void(StoredTensor&)>& change) {
    return forged(made_text(), [&](Safetensors& f) {
      for (StoredTensor& t : f.tensors)
        if (t.name == name) change(t);
    });
  };
  expect_refused(changed("net.fc.bias", [](StoredTensor& t) { t.name = "net.fc.bia"; }),
                 "tensor net.fc.bias: expected F32 [10], found none");
  expect_refused(changed("net.block1.norm.running_cov", [](StoredTensor& t) { t.dtype = "I64"; }),
                 "running_cov: expected F64 [6,6], found I64 [6,6]");
  expect_refused(changed("optimizer.fc.bias", [](StoredTensor& t) { t.name = "other"; }),
                 "tensor optimizer.fc.bias: expected F32 [10], found none");
  expect_refused(forged(made_text(), [](Safetensors& f) { f.add("net.more", "F32", {0}, "", 0); }),
                 "found \"net.more\" too");
}

TEST(Checkpoints, NumbersThatAreNotFiniteAreRefused) {
  for (const char* name : {"net.fc.weight", "net.block2.norm.running_cov", "optimizer.fc.bias"})
    expect_refused(forged(made_text(),
                          [&](Safetensors& f) {
                            for (const StoredTensor& t : f.tensors)
                              if (t.name == name)
                                std::memset(f.bytes.data() + t.offset, 0xff, 8);  // NaN
                          }),
                   std::string(name) + ": expected finite numbers, found NaN");
}

TEST(Checkpoints, ANetLargerThanTheFileIsNotBuilt) {
  expect_refused(
      forged(made_text(),
             [](Safetensors& f) {
               json config = json::parse(f.metadata["config"]);
               config["blocks"] = {
                   {{"fov", 1}, {"stride", 1}, {"channels", 65536}, {"layer", "ZCA(1e-5)"}}};
               config["head"] = "average";
               json state = json::parse(f.metadata["state"]);
               state["exchanges"] = {0};
               f.metadata = {{"format", f.metadata["format"]},
                             {"config", config.dump()},
                             {"state", state.dump()}};
             }),
      "bytes for the net in its config");
}

// A config nested 200,000 deep ended the program; so did a step of −1e12.
TEST(Checkpoints, AConfigNestedDeeplyIsRefused) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const char* text : {"config", "state"})
    expect_refused(forged(made_text(), [&](Safetensors& f) { f.metadata[text] = deep; }),
                   std::string(text) + ": expected lists and objects nested up to 64");
  expect_refused(forged(made_text(),
                        [&](Safetensors& f) { f.metadata["config"] = "{\"found\":" + deep + "}"; }),
                 "nested up to 64");
}

TEST(Checkpoints, AStateThatNoTrainingReachesIsRefused) {
  const char* layers = R"([{"name":"a","spec":"BN","channels":6,"condition_number":1,)"
                       R"("effective_rank":1,"floored":0,"null":0,"exchanges":0}])";
  struct Case {
    const char* member;  // a JSON pointer
    json value;
    const char* said;
  };
  const Case cases[] = {
      {"/step", 1000000000000, "state: step: expected at most 10, the steps of an epoch"},
      {"/step", -1000000000000, "state: step: expected an integer, 0 to "},
      {"/step", 2.5, "state: step: expected an integer"},
      {"/step", nullptr, "state: step: expected an integer"},
      {"/epoch", 1000000, "state: epoch: expected an integer, 0 to 100000"},
      {"/epoch", 0, "state: schedule: lowest_loss: expected a number after the first epoch"},
      {"/wrong", 193, "state: wrong: expected at most 192"},
      {"/wrong", -1, "state: wrong: expected an integer, 0 to "},
      {"/loss_sum", nullptr, "state: loss_sum: expected a number"},
      {"/loss_sum", -1.5, "state: loss_sum: expected 0 or more"},
      {"/seconds", "long", "state: seconds: expected a number"},
      {"/metrics_md5", 3, "state: metrics_md5: expected a text"},
      {"/layers", {3}, "state: layers[0]: expected an object"},
      {"/layers", json::parse(layers), "state: layers: expected none before the last step"},
      {"/exchanges", {1}, "state: exchanges: expected one a layer, found 1"},
      {"/exchanges", {1, -2}, "state: exchanges: expected an integer"},
      {"/curve/every", 5, "state: curve: expected 3 steps"},
      {"/curve/loss", {1, nullptr}, "state: curve: loss: expected 0 or more"},
      {"/curve", 3, "state: curve: expected an object"},
      {"/schedule/now/learning_rate", 0, "state: schedule: learning_rate: expected"},
      {"/schedule/now/learning_rate", nullptr, "state: schedule: now: learning_rate: expected"},
      {"/schedule/now/momentum", 1.5, "momentum: expected 0 to 1"},
      {"/schedule/now/batch", 1, "state: schedule: batch: expected"},
      {"/schedule/now/batch", 320, "state: step: expected at most 2"},
      {"/schedule/lowest_loss", nullptr, "state: schedule: lowest_loss: expected a number"},
      {"/schedule/slow_count", 2, "state: schedule: slow_count: expected at most"},
      {"/best/epoch", 2, "state: best: epoch: expected 1 to 1, found 2"},
      {"/best/test_error_percent", 101, "test_error_percent: expected 0 to 100"},
  };
  const json good = json::parse(state_text(made().state));
  EXPECT_NO_THROW(parse_state(good.dump(), made().config, 640));
  for (const Case& c : cases) {
    json state = good;
    state[json::json_pointer(c.member)] = c.value;
    expect_refused(forged(made_text(), [&](Safetensors& f) { f.metadata["state"] = state.dump(); }),
                   c.said);
  }
  json state = good;
  state.erase("best");
  expect_refused(forged(made_text(), [&](Safetensors& f) { f.metadata["state"] = state.dump(); }),
                 "state: best: expected an object, found nothing");
}

TEST(Checkpoints, AFoundWithoutItsImageIsRefused) {
  for (const char* key : {"image", "mean", "deviation", "train_images"})
    expect_refused(forged(made_text(),
                          [&](Safetensors& f) {
                            json config = json::parse(f.metadata["config"]);
                            config["found"].erase(key);
                            f.metadata["config"] = config.dump();
                          }),
                   "config: found: ");
}

TEST(Checkpoints, WhatASmallFileAsksForIsLookedAtFirst) {
  const auto with_found = [](const std::string& key, const json& value) {
    return forged(made_text(), [&](Safetensors& f) {
      json config = json::parse(f.metadata["config"]);
      config["found"][key] = value;
      config["head"] = "average";
      f.metadata["config"] = config.dump();
    });
  };
  expect_refused(with_found("image", {4096, 4096, 4096}), "channels, 1 or 3, as image");
  for (const char* name : {"a\x1b[2J", "a\xc2\x9b", "a\xe2\x80\xae", "two\nlines"})
    expect_refused(with_found("classes", {name, "b"}), "without control characters as classes");
}

}  // namespace
}  // namespace orthobatch
