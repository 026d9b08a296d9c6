#include "config/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "config/yaml_reader.h"
#include "tests/support/server_option.h"

namespace echotrain::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& name, const std::string& text) {
  ServerOptions options;
  try {
    set_option(options, name, text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ServerOptions, EveryOptionTakesItsOwnDefault) {
  std::set<std::string> names;
  for (const OptionInfo& info : server_option_table().all()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_FALSE(info.allowed().empty()) << info.name;
    if (!info.fallback.empty()) {
      EXPECT_EQ(error_of(info.name, info.fallback), "no error");
    }
  }
  EXPECT_GE(names.size(), 105U) << "an option was lost";
}

TEST(ServerOptions, EveryOptionSetsItsOwnMember) {
  ServerOptions o;
  const std::vector<std::pair<std::string, std::string>> given{{"--bind", "::1"},
                                                               {"--port", "1"},
                                                               {"--allow", "10.0.0.0/8"},
                                                               {"--insecure", "true"},
                                                               {"--proxy-from", "10.0.0.1"},
                                                               {"--max-sessions-per-address", "35"},
                                                               {"--per-address-exempt", "10.0.0.2"},
                                                               {"--max-connecting", "36"},
                                                               {"--pause-s", "37.5"},
                                                               {"--max-step-s", "38.5"},
                                                               {"--token-file", "t"},
                                                               {"--tls-port", "14"},
                                                               {"--tls-certificate", "c.pem"},
                                                               {"tls.key", "k.pem"},
                                                               {"tls.client_ca", "ca.pem"},
                                                               {"tls.client_crl", "crl.pem"},
                                                               {"tls.only", "true"},
                                                               {"--capture-directory", "d"},
                                                               {"capture.policy", "on_error"},
                                                               {"--detached-directory", "e"},
                                                               {"detached.allow", "false"},
                                                               {"detached.max_scans", "71"},
                                                               {"detached.max_gib", "72"},
                                                               {"detached.max_keep_h", "73.5"},
                                                               {"detached.resume_within_s", "74.5"},
                                                               {"detached.reserve_mib", "75"},
                                                               {"capture.sync", "none"},
                                                               {"capture.sync_s", "15"},
                                                               {"capture.when_full", "end_session"},
                                                               {"capture.when_slow", "stop_capture"},
                                                               {"capture.queue_mib", "16"},
                                                               {"capture.max_mib", "20"},
                                                               {"capture.waiting_mib", "21"},
                                                               {"capture.reserve_mib", "22"},
                                                               {"capture.keep_days", "17"},
                                                               {"capture.keep_gib", "18"},
                                                               {"--admin-enabled", "false"},
                                                               {"--admin-bind", "::"},
                                                               {"--admin-port", "15"},
                                                               {"admin.agent_port", "19"},
                                                               {"--pipelines", "a"},
                                                               {"--pipelines", "b"},
                                                               {"--plugins", "l"},
                                                               {"--default-pipeline", "p"},
                                                               {"--assets", "f"},
                                                               {"--python", "py"},
                                                               {"--python-modules", "m"},
                                                               {"python_memory_mib", "64"},
                                                               {"python_files", "65"},
                                                               {"python_cpu_s", "66"},
                                                               {"python_sandbox", "require"},
                                                               {"python_network", "true"},
                                                               {"python_read", "r"},
                                                               {"python_write", "w"},
                                                               {"python_tasks", "67"},
                                                               {"python_file_mib", "68"},
                                                               {"python_threads", "69"},
                                                               {"python_timeout_s", "70.5"},
                                                               {"python_warm", "5"},
                                                               {"--mrd-servers", "there:1"},
                                                               {"--backend", "cuda"},
                                                               {"--log-level", "debug"},
                                                               {"--log-format", "json"},
                                                               {"--devices", "1"},
                                                               {"--devices", "0"},
                                                               {"--devices-per-scan", "2"},
                                                               {"--device-scans", "21"},
                                                               {"--device-memory-mib", "22"},
                                                               {"--cpu-scans", "23"},
                                                               {"--max-waiting", "24"},
                                                               {"--wait-timeout-s", "25"},
                                                               {"--max-sessions", "2"},
                                                               {"--memory-mib", "13"},
                                                               {"--session-memory-mib", "3"},
                                                               {"queue_mib", "4"},
                                                               {"spare_memory_s", "26"},
                                                               {"connect_timeout_s", "5"},
                                                               {"idle_timeout_s", "6"},
                                                               {"message_timeout_s", "7.5"},
                                                               {"send_timeout_s", "8"},
                                                               {"drain_timeout_s", "9"},
                                                               {"drain_mib", "10"},
                                                               {"shutdown_delay_s", "0"},
                                                               {"shutdown_delay_s", "2.5"},
                                                               {"shutdown_timeout_s", "11"},
                                                               {"threads", "12"},
                                                               {"--cache-folder", "k"},
                                                               {"plan_cache_mib", "31"},
                                                               {"operator_cache_mib", "32"},
                                                               {"trajectory_cache_mib", "33"},
                                                               {"disk_cache_mib", "34"},
                                                               {"scan_store_mib", "35"},
                                                               {"scan_store_hours", "36"},
                                                               {"scan_store_disk", "off"},
                                                               {"hopper", "off"},
                                                               {"graphs", "off"}};
  for (const auto& [name, text] : given) set_option(o, name, text);
  EXPECT_EQ(o.bind, "::1");
  EXPECT_EQ(o.port, 1);
  EXPECT_THAT(o.allow, ElementsAre("10.0.0.0/8"));
  EXPECT_TRUE(o.insecure);
  EXPECT_THAT(o.proxy_from, ElementsAre("10.0.0.1"));
  EXPECT_EQ(o.max_sessions_per_address, 35);
  EXPECT_THAT(o.per_address_exempt, ElementsAre("10.0.0.2"));
  EXPECT_EQ(o.max_connecting, 36);
  EXPECT_EQ(o.pause_s, 37.5);
  EXPECT_EQ(o.max_step_s, 38.5);
  EXPECT_EQ(o.token_file, "t");
  EXPECT_EQ(o.tls.port, 14);
  EXPECT_EQ(o.tls.certificate, "c.pem");
  EXPECT_EQ(o.tls.key, "k.pem");
  EXPECT_EQ(o.tls.client_ca, "ca.pem");
  EXPECT_EQ(o.tls.client_crl, "crl.pem");
  EXPECT_TRUE(o.tls.only);
  EXPECT_EQ(o.capture.directory, "d");
  EXPECT_EQ(o.detached.directory, "e");
  EXPECT_FALSE(o.detached.allow);
  EXPECT_EQ(o.detached.max_scans, 71);
  EXPECT_EQ(o.detached.max_gib, 72);
  EXPECT_EQ(o.detached.max_keep_h, 73.5);
  EXPECT_EQ(o.detached.resume_within_s, 74.5);
  EXPECT_EQ(o.detached.reserve_mib, 75);
  EXPECT_EQ(o.capture.policy, CaptureOptions::Policy::on_error);
  EXPECT_EQ(o.capture.sync, CaptureOptions::Sync::none);
  EXPECT_EQ(o.capture.sync_s, 15);
  EXPECT_EQ(o.capture.when_full, CaptureOptions::WhenFull::end_session);
  EXPECT_EQ(o.capture.when_slow, CaptureOptions::WhenSlow::stop_capture);
  EXPECT_EQ(o.capture.queue_mib, 16);
  EXPECT_EQ(o.capture.max_mib, 20);
  EXPECT_EQ(o.capture.waiting_mib, 21);
  EXPECT_EQ(o.capture.reserve_mib, 22);
  EXPECT_EQ(o.capture.keep_days, 17);
  EXPECT_EQ(o.capture.keep_gib, 18);
  EXPECT_THAT(o.pipelines, ElementsAre("a", "b"));
  EXPECT_THAT(o.plugins, ElementsAre("l"));
  EXPECT_EQ(o.default_pipeline, "p");
  EXPECT_EQ(o.assets, "f");
  EXPECT_EQ(o.steps.python, "py");
  EXPECT_EQ(o.steps.python_modules, "m");
  EXPECT_EQ(o.steps.python_memory_mib, 64);
  EXPECT_EQ(o.steps.python_files, 65);
  EXPECT_EQ(o.steps.python_cpu_s, 66);
  EXPECT_EQ(o.steps.python_sandbox, "require");
  EXPECT_TRUE(o.steps.python_network);
  EXPECT_THAT(o.steps.python_read, ElementsAre("r"));
  EXPECT_THAT(o.steps.python_write, ElementsAre("w"));
  EXPECT_EQ(o.steps.python_tasks, 67);
  EXPECT_EQ(o.steps.python_file_mib, 68);
  EXPECT_EQ(o.steps.python_threads, 69);
  EXPECT_EQ(o.steps.python_timeout_s, 70.5);
  EXPECT_EQ(o.python_warm, 5);
  EXPECT_THAT(o.steps.mrd_servers, ElementsAre("there:1"));
  EXPECT_EQ(o.backend, BackendChoice::cuda);
  EXPECT_EQ(o.log_level, "debug");
  EXPECT_EQ(o.log_format, "json");
  EXPECT_FALSE(o.admin.enabled);
  EXPECT_EQ(o.admin.bind, "::");
  EXPECT_EQ(o.admin.port, 15);
  EXPECT_EQ(o.admin.agent_port, 19);
  EXPECT_THAT(o.devices, ElementsAre("1", "0"));
  EXPECT_EQ(o.devices_per_scan, 2);
  EXPECT_EQ(o.device_scans, 21);
  EXPECT_EQ(o.device_memory_mib, 22);
  EXPECT_EQ(o.cpu_scans, 23);
  EXPECT_EQ(o.max_waiting, 24);
  EXPECT_EQ(o.wait_timeout_s, 25);
  EXPECT_EQ(o.max_sessions, 2);
  EXPECT_EQ(o.memory_mib, 13);
  EXPECT_EQ(o.session_memory_mib, 3);
  EXPECT_EQ(o.queue_mib, 4);
  EXPECT_EQ(o.spare_memory_s, 26);
  EXPECT_EQ(o.connect_timeout_s, 5);
  EXPECT_EQ(o.idle_timeout_s, 6);
  EXPECT_EQ(o.message_timeout_s, 7.5);
  EXPECT_EQ(o.send_timeout_s, 8);
  EXPECT_EQ(o.drain_timeout_s, 9);
  EXPECT_EQ(o.drain_mib, 10);
  EXPECT_EQ(o.shutdown_delay_s, 2.5);
  EXPECT_EQ(o.shutdown_timeout_s, 11);
  EXPECT_EQ(o.resources.threads, 12);
  EXPECT_EQ(o.resources.cache_folder, "k");
  EXPECT_EQ(o.resources.plan_cache_mib, 31);
  EXPECT_EQ(o.resources.operator_cache_mib, 32);
  EXPECT_EQ(o.resources.trajectory_cache_mib, 33);
  EXPECT_EQ(o.resources.disk_cache_mib, 34);
  EXPECT_EQ(o.resources.scan_store_mib, 35);
  EXPECT_EQ(o.resources.scan_store_hours, 36);
  EXPECT_FALSE(o.resources.scan_store_disk);
  EXPECT_FALSE(o.resources.hopper);
  EXPECT_FALSE(o.resources.graphs);
}

TEST(ServerOptions, OfDicomSetTheirOwnMembers) {
  ServerOptions o;
  const std::vector<std::pair<std::string, std::string>> given{{"--dicom-peers", "a=A@h:1"},
                                                               {"--dicom-peers", "b=B@h:2"},
                                                               {"--dicom-send-to", "b"},
                                                               {"--dicom-ae-title", "US"},
                                                               {"--dicom-patient", "true"},
                                                               {"--dicom-spool", "s"},
                                                               {"--dicom-spool-mib", "1"},
                                                               {"--dicom-queue-mib", "2"},
                                                               {"--dicom-timeout-s", "3"},
                                                               {"--dicom-retry-s", "4"},
                                                               {"--dicom-echo-s", "5"},
                                                               {"--dicom-tls-ca", "ca.pem"},
                                                               {"--dicom-tls-certificate", "c.pem"},
                                                               {"--dicom-tls-key", "k.pem"}};
  for (const auto& [name, text] : given) set_option(o, name, text);
  EXPECT_THAT(o.dicom.peers, ElementsAre("a=A@h:1", "b=B@h:2"));
  EXPECT_THAT(o.dicom.send_to, ElementsAre("b"));
  EXPECT_EQ(o.dicom.ae_title, "US");
  EXPECT_TRUE(o.dicom.patient);
  EXPECT_EQ(o.dicom.spool, "s");
  EXPECT_EQ(o.dicom.spool_mib, 1);
  EXPECT_EQ(o.dicom.queue_mib, 2);
  EXPECT_EQ(o.dicom.timeout_s, 3);
  EXPECT_EQ(o.dicom.retry_s, 4);
  EXPECT_EQ(o.dicom.echo_s, 5);
  EXPECT_EQ(o.dicom.tls_ca, "ca.pem");
  EXPECT_EQ(o.dicom.tls_certificate, "c.pem");
  EXPECT_EQ(o.dicom.tls_key, "k.pem");
}

/// Sets a variable of the environment for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(ServerOptions, VariablesOfTheEnvironmentSetOptions) {
  const Variable threads("ECHOTRAIN_THREADS", "3"), folder("ECHOTRAIN_CACHE_DIR", "/c"),
      plans("ECHOTRAIN_PLAN_CACHE_MIB", "4"), operators("ECHOTRAIN_OPERATOR_CACHE_MIB", "5"),
      trajectories("ECHOTRAIN_TRAJECTORY_CACHE_MIB", "6"), disk("ECHOTRAIN_DISK_CACHE_MIB", "7"),
      store("ECHOTRAIN_SCAN_STORE_MIB", "8"), hours("ECHOTRAIN_SCAN_STORE_HOURS", "9"),
      on_disk("ECHOTRAIN_SCAN_STORE_DISK", "off"), hopper("ECHOTRAIN_HOPPER", "off"), graphs("ECHOTRAIN_GRAPHS", "off");
  const ResourceOptions o = read_server_variables().resources;
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.cache_folder, "/c");
  EXPECT_EQ(o.plan_cache_mib, 4);
  EXPECT_EQ(o.operator_cache_mib, 5);
  EXPECT_EQ(o.trajectory_cache_mib, 6);
  EXPECT_EQ(o.disk_cache_mib, 7);
  EXPECT_EQ(o.scan_store_mib, 8);
  EXPECT_EQ(o.scan_store_hours, 9);
  EXPECT_FALSE(o.scan_store_disk);
  EXPECT_FALSE(o.hopper);
  EXPECT_FALSE(o.graphs);
}

TEST(ServerOptions, AnEmptyVariableIsNone) {
  const Variable threads("ECHOTRAIN_THREADS", "");
  EXPECT_EQ(read_server_variables().resources.threads, 0);
}

TEST(ServerOptions, AWrongVariableIsNamed) {
  const auto error = [](const char* name, const char* value) -> std::string {
    const Variable variable(name, value);
    try {
      read_server_variables();
    } catch (const ConfigError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("ECHOTRAIN_THREADS", "many"),
            "ECHOTRAIN_THREADS: threads: a whole number is expected, not 'many'; allowed is 0 to 4096");
  EXPECT_EQ(error("ECHOTRAIN_HOPPER", "maybe"), "ECHOTRAIN_HOPPER: hopper: 'maybe' is not one of on, off");
  EXPECT_EQ(error("ECHOTRAIN_PLAN_CACHE_MIB", "-1"),
            "ECHOTRAIN_PLAN_CACHE_MIB: plan_cache_mib: '-1' is out of range; allowed is 0 to 1073741824");
}

TEST(ServerOptions, ErrorsSayOptionValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of("--port", "70000"), "--port: port: '70000' is out of range; allowed is 0 to 65535");
  EXPECT_EQ(error_of("port", "-1"), "--port: port: '-1' is out of range; allowed is 0 to 65535");
  EXPECT_EQ(error_of("port", "http"), "--port: port: a whole number is expected, not 'http'; allowed is 0 to 65535");
  EXPECT_THAT(error_of("idle_timeout_s", "0"), AllOf(HasSubstr("'0'"), HasSubstr("0.01 to 86400")));
  EXPECT_THAT(error_of("log_level", "warn"), HasSubstr("'warn' is not one of trace, debug, info, warning, error"));
  EXPECT_THAT(error_of("bind", ""), HasSubstr("empty"));
}

class OptionsFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  ServerOptions read(const std::string& text) const {
    std::ofstream(file_) << text;
    return read_server_options_file(file_);
  }
  std::string error(const std::string& text) const {
    try {
      read(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("echotrain_options_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml");
};

TEST_F(OptionsFile, OverridesDefaults) {
  const ServerOptions options = read("port: 0\nbackend: cpu\npipelines: [more, /srv/pipelines]\nidle_timeout_s: 1.5\n");
  EXPECT_EQ(options.port, 0);
  EXPECT_EQ(options.backend, BackendChoice::cpu);
  EXPECT_EQ(options.idle_timeout_s, 1.5);
  EXPECT_EQ(options.max_sessions, 64);
  EXPECT_THAT(options.pipelines, ElementsAre((file_.parent_path() / "more").string(), "/srv/pipelines"));
}

TEST_F(OptionsFile, GroupsAreMaps) {
  const ServerOptions options = read("tls:\n  certificate: a.pem\n  key: /etc/b.pem\n  port: 7\nallow: 10.0.0.0/8\n");
  EXPECT_EQ(options.tls.certificate, (file_.parent_path() / "a.pem").string());
  EXPECT_EQ(options.tls.key, "/etc/b.pem");
  EXPECT_EQ(options.tls.port, 7);
  EXPECT_EQ(options.tls.client_ca, "");
  EXPECT_THAT(options.allow, ElementsAre("10.0.0.0/8"));
  EXPECT_EQ(error("tls: {certificat: a.pem}\n"),
            file_.string() + ":1:7: unknown key 'certificat'; did you mean 'certificate'?");
  EXPECT_THAT(error("tls: a.pem\n"), HasSubstr(":1:6: a map"));
  EXPECT_THAT(error("tls.port: 7\n"), HasSubstr("unknown key 'tls.port'"));
  EXPECT_THAT(error("insecure: 1\n"), HasSubstr("write true or false here, not '1'"));
}

TEST_F(OptionsFile, AdminPortCountsAsAskedForWhenItIsGiven) {
  EXPECT_FALSE(read("admin: {enabled: true}\n").admin.asked_for);
  EXPECT_TRUE(read("admin: {port: 9004}\n").admin.asked_for);
  EXPECT_TRUE(read("admin: {bind: 127.0.0.1}\n").admin.asked_for);
}

TEST_F(OptionsFile, TemplateHoldsEveryOptionWithItsDefault) {
  const std::string text = server_options_template();
  EXPECT_EQ(read_yaml(text, "template").kind(), Node::Kind::null);  // all is commented out
  // Without the # before its options, the file sets everything to its default. (Comments have a space after the #.)
  std::string active;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_option = line.size() > 2 && line[0] == '#' && (line[1] != ' ' || line[2] == ' ');
    active += (is_option ? line.substr(1) : line) + "\n";
  }
  const Node root = read_yaml(active, "active");
  std::size_t options = 0;
  for (const OptionInfo& info : server_option_table().all()) {
    const std::size_t dot = info.name.find('.');
    const Node group = dot == std::string::npos ? root : root.get(info.name.substr(0, dot));
    const Node value = group.get(dot == std::string::npos ? info.name : info.name.substr(dot + 1));
    EXPECT_NE(value.kind(), Node::Kind::null) << info.name;
    if (value.kind() == Node::Kind::scalar) {
      EXPECT_EQ(value.as_string(), info.fallback) << info.name;
    }
    EXPECT_NE(text.find(info.help + " (" + info.allowed() + ")"), std::string::npos) << info.name;
    ++options;
  }
  EXPECT_EQ(options, server_option_table().all().size());
  const ServerOptions all = read(active);
  EXPECT_EQ(all.port, ServerOptions{}.port);
  EXPECT_EQ(all.backend, ServerOptions{}.backend);
}

TEST_F(OptionsFile, BeatsVariablesAndIsBeatenByFlags) {
  std::ofstream(file_) << "threads: 2\n";
  const Variable threads("ECHOTRAIN_THREADS", "1"), folder("ECHOTRAIN_CACHE_DIR", "kept");
  ServerOptions options = read_server_options_file(file_, read_server_variables());
  EXPECT_EQ(options.resources.threads, 2);
  EXPECT_EQ(options.resources.cache_folder, "kept");  // not taken from the file's folder
  set_option(options, "--threads", "3");
  EXPECT_EQ(options.resources.threads, 3);
}

TEST_F(OptionsFile, MayBeEmpty) { EXPECT_EQ(read("# nothing\n").port, 9002); }

TEST_F(OptionsFile, ErrorsSayWhere) {
  EXPECT_EQ(error("bind: ::1\nport: 70000\n"),
            file_.string() + ":2:7: port: '70000' is out of range; allowed is 0 to 65535");
  EXPECT_EQ(error("max_session: 1\n"),
            file_.string() + ":1:1: unknown key 'max_session'; did you mean 'max_sessions'?");
  EXPECT_THAT(error("port: \"9002\"\n"), HasSubstr("a whole number is expected, not the quoted text '9002'"));
  EXPECT_THAT(error("port:\n"), HasSubstr("not nothing"));
  EXPECT_THAT(error("- port\n"), HasSubstr("a map"));
  EXPECT_THAT(error("pipelines: {a: b}\n"), HasSubstr("pipelines: "));
}

}  // namespace
}  // namespace echotrain::config
