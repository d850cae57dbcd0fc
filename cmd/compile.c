/* `shoal compile`: artifacts of IREE for kinds of hardware, made by Python
 * (python/shoal/hosted/artifacts.py). Here are the options as help, manual and completions show
 * them. */
#include "output.h"
#include "python.h"

static const struct argp_option options[] = {
    {"target", CMD_PYTHON_KEY, "KIND[:DEVICE]", 0,
     "The kind of hardware: llvm-cpu, cuda, rocm, vulkan or metal, and which device, such as "
     "cuda:sm_89; again for another one (default: llvm-cpu, this processor)",
     0},
    {"target-cpu", CMD_PYTHON_KEY, "NAME", 0, "The same as --target llvm-cpu:NAME", 0},
    {"amd-target", CMD_PYTHON_KEY, "NAME", 0, "The same as --target rocm:NAME", 0},
    {"output", 'o', "FILE", 0,
     "The file to write, and beside it FILE.sig (default: the artifact stays where it is kept)", 0},
    OUTPUT_OPTION_FORCE,
    {"function", CMD_PYTHON_KEY, "NAME", 0,
     "The function to compile (default: @main, or the only one)", 0},
    {"list", CMD_PYTHON_KEY, NULL, 0, "List the artifacts that are kept", 0},
    {"check", CMD_PYTHON_KEY, NULL, 0, "Tell whether the argument is an artifact as it was signed",
     0},
    {"signer", CMD_PYTHON_KEY, "KEY", 0,
     "With --check: the public key of who has to have signed it (default: this user's)", 0},
    {"serve", CMD_PYTHON_KEY, "WHAT", 0,
     "Give artifacts to the workers of a hub of this user, until it ends: kept, those that are "
     "kept here; compile, also those that they ask for, which are compiled then. 'shoal hub "
     "--artifacts' starts this",
     0},
    {"hub", 'H', "ADDRESS", 0, "With --serve: the hub (default: SHOAL_HUB, else shm:hub)", 0},
    CMD_OPTIONS_END};

static int run(const cmd_command *self, int argc, char **argv) {
    return cmd_python(self, "shoal.hosted.artifacts", argc, argv);
}

const cmd_command cmd_compile = {
    .name = "compile",
    .group = CMD_COMPUTE,
    .args = "MODEL.mlir",
    .summary = "Compile a StableHLO program for kinds of hardware, by IREE",
    .doc = "An artifact is a module for IREE's runtime. It is kept under the digest of all that it "
           "was made of, so that it is compiled once, and signed by this user's key for artifacts. "
           "iree-compile is that of the package iree-base-compiler, in the interpreter that "
           "SHOAL_PYTHON names (default: python3).",
    .options = options,
    .take = cmd_python_take,
    .run = run};
