/* `shoal train`: becomes the Python that has the package, which trains (python/shoal/train). Here
 * are the options as help, manual and completions show them. */
#include "python.h"

static const struct argp_option options[] = {
    {"config", CMD_PYTHON_KEY, "FILE", 0, "The experiment's file, as the argument CONFIG.json", 0},
    {"model", CMD_PYTHON_KEY, "FILE", 0, "The model, as the key model_path", 0},
    {"workers", CMD_PYTHON_KEY, "N", 0, "Workers to wait for, as the key workers", 0},
    {"resume", CMD_PYTHON_KEY, NULL, 0,
     "Go on from the newest checkpoint, as the key should_resume", 0},
    {"streaming", CMD_PYTHON_KEY, NULL, 0,
     "Exchange in 4 fragments, going on meanwhile, as the keys fragments=4 overlap=1", 0},
    {"dry-run", CMD_PYTHON_KEY, NULL, 0,
     "Print the experiment, where each value comes from, and what parameters begin with", 0},
    {"keys", CMD_PYTHON_KEY, NULL, 0, "Print all keys of an experiment", 0},
    {"no-dashboard", CMD_PYTHON_KEY, NULL, 0, "Print lines instead of the screen", 0},
    {"metrics", CMD_PYTHON_KEY, "PORT", OPTION_ARG_OPTIONAL,
     "Serve metrics for Prometheus at http://127.0.0.1:PORT/metrics (default: 7481)", 0},
    {"hub", 'H', "ADDRESS", 0,
     "Train on the pool of this hub (default: SHOAL_HUB, else a pool in this process)", 0},
    {"shepherd", CMD_PYTHON_KEY, NULL, 0, "Start a hub for workers that connect", 0},
    {"host", CMD_PYTHON_KEY, "HOST", 0,
     "With --shepherd: this machine's address in the workers' network. Beyond loopback links are "
     "encrypted, for enrolled users only (default: 127.0.0.1)",
     0},
    {"port", CMD_PYTHON_KEY, "PORT", 0, "With --shepherd: its port (default: 8080)", 0},
    {"terminate", CMD_PYTHON_KEY, NULL, 0, "End when training is done, as it does anyway", 0},
    {"worker", CMD_PYTHON_KEY, NULL, 0, "Be a worker, as 'shoal worker' is one", 0},
    {"connect", CMD_PYTHON_KEY, "HOST:PORT", 0, "With --worker: where the shepherd is", 0},
    {"name", 'n', "NAME", 0, "With --worker: its name in tables and messages", 0},
    {"backend", CMD_PYTHON_KEY, "NAME", 0,
     "With --worker: the devices to lend, cpu, opencl or another of 'shoal backends'; cuda, rocm, "
     "metal and vulkan stand for those that serve such devices",
     0},
    {"device-id", CMD_PYTHON_KEY, "N", 0, "With --backend: the number of the device", 0},
    {"target", CMD_PYTHON_KEY, "NAME", 0,
     "With --backend cuda or rocm: the device that is expected, such as sm_80 or gfx942", 0},
    {"amd-target", CMD_PYTHON_KEY, "NAME", 0, "The same as --target", 0},
    CMD_OPTIONS_END};

static int run(const cmd_command *self, int argc, char **argv) {
    return cmd_python(self, "shoal.train.command", argc, argv);
}

const cmd_command cmd_train = {
    .name = "train",
    .group = CMD_COMPUTE,
    .args = "[CONFIG.json] [KEY=VALUE...]",
    .summary = "Train a model on workers, also over slow links",
    .doc =
        "An experiment is a JSON file, or words KEY=VALUE, which count more; --keys lists the "
        "keys. "
        "q or Ctrl-C ends the training after the round. Training is done by the Python package, in "
        "the interpreter that SHOAL_PYTHON names (default: python3).",
    .options = options,
    .take = cmd_python_take,
    .run = run};
