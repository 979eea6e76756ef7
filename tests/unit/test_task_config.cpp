// Keys of the task: losses and their sums, what labels are, metrics as targets; and the metrics themselves.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/inference/evaluate_and_predict.hpp"
#include "src/plan/plan.hpp"
#include "src/training/metrics.hpp"
#include "tests/unit/support/config_text.hpp"

namespace mrmf {
namespace {

Config with(const std::vector<std::string>& settings) { return parse_config(kSmallest, "c.toml", settings); }

std::string config_refusal(const std::vector<std::string>& settings) {
  try {
    with(settings);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool refuses(const std::vector<std::string>& settings, const std::string& why) {
  INFO(config_refusal(settings));
  const bool found = config_refusal(settings).find(why) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("config: a loss is a word, a table, or a list of them, and comes back as it was") {
  CHECK(with({}).training.loss == LossSettings{});
  CHECK(to_toml(with({})).find("\nloss = \"mse\"\n") != std::string::npos);
  const Config both = with({"training.loss=[{kind=\"cross_entropy\"}, {kind=\"dice\", weight=0.5, smooth=0.1}]"});
  CHECK(both.training.loss.weight(LossKind::cross_entropy) == 1);
  CHECK(both.training.loss.weight(LossKind::dice) == 0.5F);
  CHECK(both.training.loss.weight(LossKind::mse) == 0);
  CHECK(both.training.loss.smooth == 0.1F);
  CHECK(both.training.loss.task() == Task::classes);
  CHECK(both.data.train.form.kind == LabelKind::classes);
  CHECK(both.data.validation.form == both.data.train.form);
  CHECK(parse_config(to_toml(both), "c.toml", {}) == both);
  CHECK(with({"training.loss=[\"mse\", \"mae\"]"}).training.loss.weight(LossKind::mae) == 1);
  const Config huber = with({"training.loss={kind=\"huber\", delta=0.25}"});
  CHECK(huber.training.loss.delta == 0.25F);
  CHECK(parse_config(to_toml(huber), "c.toml", {}) == huber);
  const Config binary = with({"training.loss=binary_cross_entropy", "training.ignore=255",
                              "training.class_weights=[1, 0.5]", "data.coarse_labels=majority"});
  CHECK(binary.data.train.form == LabelForm{LabelKind::probabilities, 0, 255, CoarseLabels::majority});
  CHECK(parse_config(to_toml(binary), "c.toml", {}) == binary);
}

TEST_CASE("config: losses that make no sense") {
  refuses({"training.loss=mes"},
          "training.loss is \"mes\"; it must be one of mse, mae, huber, cross_entropy, "
          "binary_cross_entropy, dice, focal, binary_focal; did you mean \"mse\"?");
  refuses({"training.loss=[\"mse\", \"dice\"]"}, "training.loss adds dice to mse, which are of different tasks");
  refuses({"training.loss=[\"cross_entropy\", \"binary_cross_entropy\"]"}, "of different tasks");
  refuses({"training.loss=[\"mse\", \"mse\"]"}, "training.loss has mse twice");
  refuses({"training.loss=[]"}, "training.loss is []; it must be");
  refuses({"training.loss=[{weight=1}]"}, "training.loss[0] has no kind");
  refuses({"training.loss={kind=\"mse\", delta=1}"}, "training.loss.delta belongs to huber, and this is mse");
  refuses({"training.loss={kind=\"mse\", wieght=1}"}, "did you mean 'training.loss.weight'?");
  refuses({"training.loss={kind=\"mse\", weight=0}"}, "training.loss.weight is 0; it must be a number above 0");
  refuses({"training.classes=3"}, "training.classes is set, and training.loss is of numbers");
  refuses({"training.ignore=3"}, "training.ignore is set, and training.loss is of numbers");
  refuses({"training.loss=cross_entropy", "training.class_weights=[0, 0]"}, "are all 0");
}

TEST_CASE("config: a metric as the target of the last phase") {
  const Config config = with({"training.loss=cross_entropy", "method.target.validation_iou=0.9"});
  CHECK(config.method.metric_target == MetricTarget{Metric::iou, 0.9});
  CHECK(config.training.metric == Metric::iou);
  CHECK(parse_config(to_toml(config), "c.toml", {}) == config);
  const Plan plan = make_plan(config);
  CHECK(plan.last.stop.metric_target == MetricTarget{Metric::iou, 0.9});
  CHECK(to_text(plan).find("until validation iou >= 0.9, or 100 epochs") != std::string::npos);
  StopRule rule(plan.last.stop);
  CHECK(rule.update(1, 1, 0.89) == StopReason::none);
  CHECK(rule.update(1, 1, 0.9) == StopReason::target);
  refuses({"method.target.validation_dice=0.9"}, "does not go with training.loss, which is of numbers");
  refuses({"training.loss=dice", "method.target.validation_r2=0.9"}, "does not go with training.loss");
  refuses({"training.loss=dice", "method.target.validation_iou=0.9", "training.metric=dice"}, "is another one");
  refuses({"training.loss=dice", "method.target={validation_iou=0.9, validation_dice=0.9}"}, "is a second metric");
  refuses({"training.metric=accuracy"}, "training.metric does not go with training.loss, which is of numbers");
}

TEST_CASE("labels: classes follow from the network, and shapes are compared at every resolution") {
  const std::string text = std::string(kSmallest).substr(0, std::string(kSmallest).find("[model]")) + R"(
[[model.layers]]
type = "conv"
filters = 3
kernel = 3
padding = "same"
stride = 2
)";
  const auto config = [&](const std::vector<std::string>& settings) { return parse_config(text, "c.toml", settings); };
  const std::vector<Extent> both{{1, 1, 2}, {1, 1, 1}};
  DatasetShape shape{10, {0, {1, 1, 16}, 2, 1}, {0, {1, 1, 8}, 1, 1}, {10}};
  Config classes = config({"training.loss=cross_entropy"});
  resolve_labels(classes, shape, both);
  CHECK(classes.training.classes == 3);
  CHECK(classes.data.train.form.classes == 3);
  const auto why = [&](const std::vector<std::string>& settings) {
    Config wrong = config(settings);
    try {
      resolve_labels(wrong, shape, both);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(why({"training.loss=cross_entropy", "training.classes=4"}) ==
        "training.classes = 4, and the network's last layer has 3 channels; it needs one for each class");
  CHECK(why({"training.loss=dice", "training.class_weights=[1, 2]"}).starts_with("training.class_weights has 2"));
  CHECK(why({}).starts_with("the network's output is 4x3 and the labels are 4x1 at resolution [2]; "));
  shape.label.spatial[2] = 16;
  CHECK(why({"training.loss=dice"}).starts_with("the network's output is 4x1 classes and the labels are 8x1 at "));
  shape.label = {.channels = 1};
  CHECK(why({"training.loss=dice"}).find("the labels are one class per sample") != std::string::npos);
}

TEST_CASE("labels: classes that never occur are named") {
  const Config config = with({"training.loss=cross_entropy"});
  CHECK(class_warnings(config, {3, 1, 7}).empty());
  CHECK(class_warnings(config, {}).empty());
  CHECK(class_warnings(config, {3, 0, 7}).at(0).starts_with("class 1 never occurs in the training labels ('y'): "));
  CHECK(class_warnings(config, {0, 0, 7}).at(0).starts_with("classes 0, 1 never occur in "));
}

TEST_CASE("metrics: counts of classes, by hand") {
  MetricSums sums(Task::classes, {2, {1, 1, 3}, 3, 1}, 1);
  //              (ignored) 0        2        1        1        0
  const std::vector<float> y{9, 9, 9, 3, 1, 2, 0, 0, 1, 0, 5, 1, 1, 2, 0, 4, 0, 0};
  const std::vector<float> target{-1, 0, 2, 2, 1, 1};
  sums.add(y, target);
  CHECK(sums.value(Metric::accuracy) == doctest::Approx(3.0 / 5));
  CHECK(sums.of_class(0).iou() == doctest::Approx(1.0 / 2));
  CHECK(sums.of_class(1).iou() == doctest::Approx(1.0 / 3));
  CHECK(sums.of_class(2).dice() == doctest::Approx(2.0 / 3));
  CHECK(sums.value(Metric::iou) == doctest::Approx((1.0 / 2 + 1.0 / 3 + 1.0 / 2) / 3));
  CHECK(sums.value(Metric::dice) == doctest::Approx((2.0 / 3 + 1.0 / 2 + 2.0 / 3) / 3));
  sums.clear();
  sums.add(std::vector<float>{1, 0, 0, 1, 0, 0}, std::vector<float>{0, 0});
  CHECK(sums.value(Metric::dice) == 1);  // classes that do not occur do not count
}

TEST_CASE("metrics: what evaluate prints of classes") {
  Scores scores(Task::classes, {3, {1, 1, 1}, 6, 0}, 1);
  // The label's output is the largest, the fifth and the sixth.
  const std::vector<float> y{0, 9, 1, 1, 1, 1, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6, 7, 2};
  scores.add(y, std::vector<float>{1, 0, 5}, 3);
  const std::string text = scores.text();
  CHECK(text.starts_with("loss 1.000000\naccuracy 0.333333 of the samples with a label\n"));
  CHECK(text.find("\naccuracy 0.666667 of the first 5\n") != std::string::npos);
  CHECK(text.find("\n     5         0         0         0         0         1         0\n") != std::string::npos);
  CHECK(text.find("\n     1            1            1   1.0000   1.0000\n") != std::string::npos);
  CHECK(text.find("\n     2            0            0        -        -\n") != std::string::npos);
}

TEST_CASE("metrics: yes or no, shares of classes, and R^2") {
  MetricSums yes(Task::binary, {2, {1, 1, 1}, 2, 0}, 2);
  yes.add(std::vector<float>{1, -1, 2, 3}, std::vector<float>{1, 1, 0, -1});
  CHECK(yes.value(Metric::accuracy) == doctest::Approx(1.0 / 3));
  CHECK(yes.of_class(0).iou() == doctest::Approx(0.5));
  CHECK(yes.of_class(1).iou() == 0);
  MetricSums shares(Task::classes, {1, {1, 1, 2}, 2, 1}, 2);
  shares.add(std::vector<float>{1, 2, 3, 4}, std::vector<float>{0.25F, 0.75F, 0, 0});
  CHECK(shares.value(Metric::accuracy) == 1);
  CHECK(shares.of_class(1).labelled == 1);
  MetricSums numbers(Task::regression, {4, {1, 1, 1}, 1, 0}, 1);
  numbers.add(std::vector<float>{1, 2, 3, 5}, std::vector<float>{1, 2, 3, 4});
  CHECK(numbers.value(Metric::r2) == doctest::Approx(1 - 1.0 / 5));
}

TEST_CASE("metrics: without labels that count, or of labels that do not vary, there is no value") {
  MetricSums classes(Task::classes, {2, {1, 1, 1}, 2, 0}, 1);
  classes.add(std::vector<float>{1, 2, 3, 4}, std::vector<float>{-1, -1});
  for (const Metric metric : {Metric::accuracy, Metric::iou, Metric::dice}) CHECK(std::isnan(classes.value(metric)));
  Scores none(Task::classes, {2, {1, 1, 1}, 2, 0}, 1);
  none.add(std::vector<float>{1, 2, 3, 4}, std::vector<float>{-1, -1}, 0);
  CHECK(none.labelled() == 0);
  CHECK(none.text().starts_with("loss -\naccuracy - of the samples with a label\n"));
  CHECK(none.json().at("loss").is_null());
  Scores one(Task::binary, {2, {1, 1, 1}, 2, 0}, 2);
  one.add(std::vector<float>{1, 2, 3, 4}, std::vector<float>{-1, -1, -1, 1}, 0.5);
  CHECK(one.labelled() == 1);
  CHECK(one.json().at("loss") == 0.5);  // of the one sample that has a label
}

TEST_CASE("metrics: R^2 of many labels tells none from little spread") {
  constexpr int count = 100000;
  const auto r2_of = [](const std::vector<float>& first, const std::vector<float>& second) {
    MetricSums sums(Task::regression, {1, {1, 1, 1}, 2, 0}, 2);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i % 2);
      sums.add(std::vector<float>{0.5F, first[at]}, std::vector<float>{first[at], second[at]});
    }
    return std::pair(sums.value(Metric::r2), sums.of_output(1).r2());
  };
  // 0.1, 1e-6 and 12345.678 have no exact squares, whose sums drift by more than their last digit.
  for (const float same : {0.1F, 1e-6F, 12345.678F, -3.3F}) {
    const auto [mean, r2] = r2_of({same, same}, {same, same});
    CHECK(std::isnan(r2));
    CHECK(std::isnan(mean));
  }
  const auto [mean, r2] = r2_of({7, 7}, {100, 100.01F});  // the output that varies alone
  CHECK(mean == r2);
  CHECK(r2 < 0);
  CHECK(std::isnan(r2_of({0, 0}, {0, 0}).first));
}

}  // namespace mrmf
