/* The commands about commands: help, manual pages and completions, all from the tables of options.
 */
#include "cmd.h"
#include "text.h"

#include <ctype.h>
#include <string.h>

static const char *const headings[] = {[CMD_POOLS] = "Pools",
                                       [CMD_BACKGROUND] = "Processes in the background",
                                       [CMD_SEE] = "Monitoring",
                                       [CMD_COMPUTE] = "Computing",
                                       [CMD_ABOUT] = "This command"};
static const char about[] = "Turns the machines you have into one tensor computer.";

/* Options end with an empty row; a row without a name is a heading of their help. */
static bool is_end(const struct argp_option *o) {
    return o->name == NULL && o->key == 0 && o->doc == NULL;
}

static bool has_letter(const struct argp_option *o) { return o->key > ' ' && o->key < 0x7f; }

void cmd_print_help(FILE *stream) {
    fprintf(stream, "Usage: shoal COMMAND [OPTION...]\n%s\n", about);
    int group = -1;
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        const cmd_command *command = cmd_commands[i];
        if ((int)command->group != group)
            fprintf(stream, "\n%s\n", headings[group = (int)command->group]);
        fprintf(stream, "  %-11s %s\n", command->name, command->summary);
    }
    fputs("\n'shoal COMMAND --help' shows the options of a command; -V prints the "
          "version.\nSHOAL_HUB is the address of the pool if --hub is not given.\n",
          stream);
}

static int print_help_json(void) {
    cJSON *root = cJSON_CreateArray();
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        const cmd_command *command = cmd_commands[i];
        cJSON *row = cJSON_CreateObject(), *options = cJSON_CreateArray();
        cJSON_AddStringToObject(row, "name", command->name);
        cJSON_AddStringToObject(row, "group", headings[command->group]);
        cJSON_AddStringToObject(row, "arguments", command->args != NULL ? command->args : "");
        cJSON_AddStringToObject(row, "summary", command->summary);
        for (const struct argp_option *o = command->options; !is_end(o); o++) {
            char letter[2] = {has_letter(o) ? (char)o->key : 0, 0};
            if (o->name == NULL) continue;
            cJSON *option = cJSON_CreateObject();
            cJSON_AddStringToObject(option, "name", o->name);
            cJSON_AddStringToObject(option, "letter", letter);
            cJSON_AddStringToObject(option, "argument", o->arg != NULL ? o->arg : "");
            cJSON_AddStringToObject(option, "doc", o->doc);
            cJSON_AddItemToArray(options, option);
        }
        cJSON_AddItemToObject(row, "options", options);
        cJSON_AddItemToArray(root, row);
    }
    return text_json(root);
}

/* ---- manual pages ---- */

/* Text of troff's: no line begins with a dot or a quote, and no backslash means anything. */
static void put_roff(const char *text) {
    for (bool begin = true; *text != 0; text++) {
        if (begin && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\n' && text[1] == '\n')
            fputs("\n.PP", stdout);
        else
            putchar(*text);
        begin = *text == '\n';
    }
}

static void put_option(const struct argp_option *o) {
    if (o->name == NULL) {
        printf(".SS ");
        put_roff(o->doc);
        putchar('\n');
        return;
    }
    fputs(".TP\n", stdout);
    if (has_letter(o)) printf("\\fB\\-%c\\fR, ", o->key);
    fputs("\\fB\\-\\-", stdout);
    put_roff(o->name);
    fputs("\\fR", stdout);
    if (o->arg != NULL) {
        bool optional = o->flags & OPTION_ARG_OPTIONAL;
        fputs(optional ? "[=\\fI" : "=\\fI", stdout);
        put_roff(o->arg);
        fputs(optional ? "\\fR]" : "\\fR", stdout);
    }
    putchar('\n');
    put_roff(o->doc);
    putchar('\n');
}

static void put_head(const char *name, const char *summary) {
    printf(".TH ");
    for (const char *c = name; *c != 0; c++) putchar(toupper((unsigned char)*c));
    printf(" 1 \"\" \"shoal %s\" \"User Commands\"\n.SH NAME\n", shoal_version());
    put_roff(name);
    fputs(" \\- ", stdout);
    put_roff(summary);
    puts("\n.SH SYNOPSIS");
}

static void print_page(const cmd_command *command) {
    char name[64];
    snprintf(name, sizeof name, "shoal-%s", command->name);
    put_head(name, command->summary);
    printf(".B shoal %s\n[\\fIOPTION\\fR...]", command->name);
    if (command->args != NULL) {
        fputs(" \\fI", stdout);
        put_roff(command->args);
        fputs("\\fR", stdout);
    }
    if (command->doc != NULL) {
        fputs("\n.SH DESCRIPTION\n", stdout);
        put_roff(command->doc);
    }
    puts("\n.SH OPTIONS");
    for (const struct argp_option *o = command->options; !is_end(o); o++) put_option(o);
    puts(".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for wrong usage.\n"
         ".SH SEE ALSO\n\\fBshoal\\fR(1)");
}

static void print_main_page(void) {
    int group = -1;
    put_head("shoal", about);
    puts(".B shoal\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH COMMANDS");
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        const cmd_command *command = cmd_commands[i];
        if ((int)command->group != group) printf(".SS %s\n", headings[group = (int)command->group]);
        printf(".TP\n\\fBshoal\\-%s\\fR(1)\n", command->name);
        put_roff(command->summary);
        putchar('\n');
    }
    puts(".SH ENVIRONMENT\n"
         ".TP\nSHOAL_HUB\nThe address of the pool, if --hub is not given.\n"
         ".TP\nSHOAL_LOG\nThe log level: error, warn, info or debug.\n"
         ".TP\nSHOAL_LISTEN\nThe address at which others reach workers and clients on this "
         "machine.\n"
         ".TP\nSHOAL_MODELS\nFolders, with colons between them, where model files are looked for; "
         "missing ones are fetched into the first.\n"
         ".TP\nSHOAL_ARTIFACTS\nWhose artifacts a worker runs: own, or hub.\n"
         ".TP\nSHOAL_INSTRUCTION_LOG\nA file to which all events are written.\n"
         ".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for wrong usage.");
}

/* ---- help ---- */

typedef struct help_input {
    const char *word;
    bool man;
} help_input;

enum { KEY_MAN = 0x100 };
static const struct argp_option help_options[] = {
    {"man", KEY_MAN, NULL, 0, "Print a manual page, in troff", 0}, CMD_OPTIONS_END};

static void take_help(void *input, int key, char *arg) {
    help_input *in = input;
    if (key == KEY_MAN) in->man = true;
    if (key != ARGP_KEY_ARG) return;
    if (in->word != NULL) cmd_usage("help takes one command, and then '%s'", arg);
    in->word = arg;
}

static int run_help(const cmd_command *self, int argc, char **argv) {
    help_input in = {0};
    cmd_parse(self, argc, argv, &in);
    const cmd_command *command = in.word != NULL ? cmd_find(in.word) : NULL;
    if (cmd_json && (in.man || command != NULL))
        cmd_usage("help --json covers all commands; it takes neither a command nor --man");
    if (cmd_json) return print_help_json();
    if (in.man && command != NULL)
        print_page(command);
    else if (in.man)
        print_main_page();
    else if (command == NULL)
        cmd_print_help(stdout);
    char option[] = "--help", *asked[] = {option, option, NULL};
    return command != NULL && !in.man ? command->run(command, 2, asked) : CMD_OK;
}

const cmd_command cmd_help = {.name = "help",
                              .group = CMD_ABOUT,
                              .args = "[COMMAND]",
                              .summary = "Print this help, or that of a command",
                              .options = help_options,
                              .take = take_help,
                              .run = run_help};

/* ---- version ---- */

static const struct argp_option no_options[] = {CMD_OPTIONS_END};

static void take_none(void *input, int key, char *arg) {}

static int run_version(const cmd_command *self, int argc, char **argv) {
    cmd_parse(self, argc, argv, NULL);
    if (!cmd_json) {
        printf("shoal %s\n", shoal_version());
        return CMD_OK;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", shoal_version());
    return text_json(root);
}

const cmd_command cmd_version = {.name = "version",
                                 .group = CMD_ABOUT,
                                 .summary = "Print the version",
                                 .options = no_options,
                                 .take = take_none,
                                 .run = run_version};

/* ---- completions ---- */

/* What follows an option or a command: a file's name is completed by the shell. */
static bool is_file(const char *arg) {
    return arg != NULL && (strncmp(arg, "FILE", 4) == 0 || strstr(arg, "MODEL") != NULL ||
                           strcmp(arg, "A B") == 0 || strncmp(arg, "[FILE", 5) == 0);
}

static void put_quoted(const char *text) {
    for (; *text != 0; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (*text == '\n')
            putchar(' ');
        else
            putchar(*text);
    }
}

static void complete_bash(void) {
    puts("# bash completion for shoal, written by `shoal completion bash`.\n"
         "_shoal() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} words files=\n"
         "    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs("        words='", stdout);
    for (int i = 0; cmd_commands[i] != NULL; i++) printf("%s ", cmd_commands[i]->name);
    puts("--help --version'\n    else case ${COMP_WORDS[1]} in");
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        printf("        %s) words='", cmd_commands[i]->name);
        bool files = is_file(cmd_commands[i]->args);
        for (const struct argp_option *o = cmd_commands[i]->options; !is_end(o); o++) {
            if (o->name == NULL) continue;
            printf("--%s ", o->name);
            files = files || is_file(o->arg);
        }
        printf("'%s ;;\n", files ? " files=yes" : "");
    }
    puts("        esac\n    fi\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    [ -z \"$files\" ] || [ \"${word#-}\" != \"$word\" ] ||\n"
         "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -F _shoal shoal");
}

/* In zsh's specifications brackets and colons mean something. */
static void put_zsh(const char *text) {
    for (; *text != 0; text++) {
        if (strchr("[]:", *text) != NULL) putchar('\\');
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, stdout);
    }
}

static void complete_zsh(void) {
    puts("#compdef shoal\n# zsh completion, written by `shoal completion zsh`.\n"
         "_shoal() {\n"
         "    local -a commands options\n"
         "    commands=(");
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        printf("        '%s:", cmd_commands[i]->name);
        put_zsh(cmd_commands[i]->summary);
        puts("'");
    }
    puts("    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    case $words[2] in");
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        const cmd_command *command = cmd_commands[i];
        printf("    %s) options=(\n", command->name);
        for (const struct argp_option *o = command->options; !is_end(o); o++) {
            if (o->name == NULL) continue;
            bool optional = o->flags & OPTION_ARG_OPTIONAL;
            printf("        '--%s%s[", o->name, o->arg == NULL ? "" : optional ? "=-" : "=");
            put_zsh(o->doc);
            putchar(']');
            if (o->arg != NULL) {
                fputs(optional ? "::" : ":", stdout);
                put_zsh(o->arg);
                fputs(is_file(o->arg) ? ":_files" : ":", stdout);
            }
            puts("'");
        }
        if (command->args != NULL)
            printf("        '*:%s:%s'\n", "argument", is_file(command->args) ? "_files" : "");
        puts("    ) ;;");
    }
    puts("    esac\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    _arguments -s $options\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _shoal ]; then _shoal \"$@\"; else compdef _shoal shoal; fi");
}

static void complete_fish(void) {
    puts("# fish completion for shoal, written by `shoal completion fish`.\n"
         "complete -c shoal -f");
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        const cmd_command *command = cmd_commands[i];
        printf("complete -c shoal -n __fish_use_subcommand -a %s -d '", command->name);
        put_quoted(command->summary);
        puts("'");
        if (is_file(command->args))
            printf("complete -c shoal -n '__fish_seen_subcommand_from %s' -F\n", command->name);
        for (const struct argp_option *o = command->options; !is_end(o); o++) {
            if (o->name == NULL) continue;
            printf("complete -c shoal -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                   o->name);
            if (has_letter(o)) printf(" -s %c", o->key);
            if (o->arg != NULL && !(o->flags & OPTION_ARG_OPTIONAL))
                fputs(is_file(o->arg) ? " -rF" : " -x", stdout);
            fputs(" -d '", stdout);
            put_quoted(o->doc);
            puts("'");
        }
    }
}

static const struct {
    const char *name;
    void (*print)(void);
} shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};

static void take_shell(void *input, int key, char *arg) {
    const char **shell = input;
    if (key != ARGP_KEY_ARG) return;
    if (*shell != NULL) cmd_usage("completion takes one shell, and then '%s'", arg);
    *shell = arg;
}

static int run_completion(const cmd_command *self, int argc, char **argv) {
    const char *shell = NULL;
    cmd_parse(self, argc, argv, &shell);
    if (shell == NULL) cmd_usage("completion needs a shell: bash, zsh or fish");
    if (cmd_json) cmd_usage("completion --json: shells do not read JSON; see 'shoal help --json'");
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print();
            return CMD_OK;
        }
    cmd_usage("completion '%s': must be bash, zsh or fish", shell);
}

const cmd_command cmd_completion = {.name = "completion",
                                    .group = CMD_ABOUT,
                                    .args = "SHELL",
                                    .summary = "Print completions for bash, zsh or fish",
                                    .doc = "For the current session: . <(shoal completion bash). "
                                           "Installed packages of shoal include them.",
                                    .options = no_options,
                                    .take = take_shell,
                                    .run = run_completion};
