/* `shoal compile`: artifacts of IREE for kinds of hardware, made by Python
 * (python/shoal/hosted/artifacts.py). Here are the options as help, manual and completions show
 * them. */
#include "output.h"
#include "python.h"

/* Keys are of no matter: the words go on as they are. */
enum { KEY_ANY = 0x300 };
static const struct argp_option options[] = {
    {"target", KEY_ANY, "KIND[:DEVICE]", 0,
     "The kind of hardware: llvm-cpu, cuda, rocm, vulkan or metal, and which device, such as "
     "cuda:sm_89; again for another one (default: llvm-cpu, this processor)",
     0},
    {"target-cpu", KEY_ANY, "NAME", 0, "The same as --target llvm-cpu:NAME", 0},
    {"amd-target", KEY_ANY, "NAME", 0, "The same as --target rocm:NAME", 0},
    {"output", 'o', "FILE", 0,
     "The file to write, and beside it FILE.sig (default: the artifact stays where it is kept)", 0},
    OUTPUT_OPTION_FORCE,
    {"function", KEY_ANY, "NAME", 0, "The function to compile (default: @main, or the only one)",
     0},
    {"list", KEY_ANY, NULL, 0, "List the artifacts that are kept", 0},
    {"check", KEY_ANY, NULL, 0, "Tell whether the argument is an artifact as it was signed", 0},
    {"signer", KEY_ANY, "KEY", 0,
     "With --check: the public key of who has to have signed it (default: this user's)", 0},
    CMD_OPTIONS_END};

static void take(void *input, int key, char *arg) { (void)input, (void)key, (void)arg; }

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
    .take = take,
    .run = run};
