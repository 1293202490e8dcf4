#include "advise/hint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONTEXT = 3, MOST_BYTES = 8 << 20, MOST_PLACES = 34, MOST_HEAD = 10 /* lines */ };

typedef enum part { INCLUDES, BEGINNING, END } part;

typedef struct source {
    char *text;               /* with zeros for ends of lines */
    char *code;               /* the same length: comments, literals and directives are spaces */
    size_t bytes, lines, *at; /* at[line]: its first byte, from 0; at[lines] is the end */
} source;

typedef struct place {
    size_t line; /* before this one, from 0 */
    part part;
    size_t indent;
} place;

typedef struct hint {
    source s;
    place place[MOST_PLACES];
    size_t places;
} hint;

/* ---- source ------------------------------------------------------------------------------------------------------ */

static void blank(char *from, const char *to) {
    for (; from < to; from++)
        if (*from != '\n') *from = ' ';
}

static char *end_of_literal(char *c) {
    char quote = *c++;
    while (*c && *c != quote && *c != '\n') c += *c == '\\' && c[1] ? 2 : 1;
    return *c == quote ? c + 1 : c;
}

static char *end_of_directive(char *c) {
    while (*c && *c != '\n') c += *c == '\\' && c[1] ? 2 : 1;
    return c;
}

static void blank_what_is_no_code(char *code) {
    bool is_first = true; /* of its line */
    for (char *c = code, *end; *c; c = end) {
        end = c + 1;
        if (c[0] == '/' && c[1] == '*') {
            char *close = strstr(c + 2, "*/");
            end = close ? close + 2 : c + strlen(c);
        } else if (c[0] == '/' && c[1] == '/') {
            end = c + strcspn(c, "\n");
        } else if (*c == '"' || *c == '\'') {
            end = end_of_literal(c);
        } else if (*c == '#' && is_first) {
            end = end_of_directive(c);
        } else {
            is_first = *c == '\n' || (is_first && isspace((unsigned char)*c));
            continue;
        }
        blank(c, end);
    }
}

static bool read_source(source *s, const char *path) {
    struct stat about;
    FILE *in = fopen(path, "r");
    bool done = in && fstat(fileno(in), &about) == 0 && S_ISREG(about.st_mode) && about.st_size < MOST_BYTES;
    if (done) {
        s->text = calloc((size_t)about.st_size + 1, 1);
        s->bytes = s->text ? fread(s->text, 1, (size_t)about.st_size, in) : 0;
        s->code = s->bytes ? strdup(s->text) : NULL;
        s->at = s->bytes ? calloc(s->bytes + 2, sizeof *s->at) : NULL;
        done = s->code && s->at && strlen(s->code) == s->bytes && s->text[s->bytes - 1] == '\n';
    }
    if (in) (void)fclose(in);
    if (!done) return false;
    blank_what_is_no_code(s->code);
    for (size_t i = 0; i < s->bytes; i++) {
        if (s->text[i] != '\n') continue;
        s->text[i] = 0;
        s->at[++s->lines] = i + 1;
    }
    return true;
}

static size_t line_of(const source *s, size_t byte) {
    size_t line = 0;
    while (line + 1 < s->lines && s->at[line + 1] <= byte) line++;
    return line;
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The next byte of the code at or after `at` that is no space. */
static size_t skip_space(const char *code, size_t at) {
    while (isspace((unsigned char)code[at])) at++;
    return at;
}

/* Behind the bracket that closes the one at `at`; 0: none does. */
static size_t behind(const char *code, size_t at, char open, char close) {
    size_t depth = 0;
    for (; code[at]; at++) {
        if (code[at] == open) depth++;
        if (code[at] == close && --depth == 0) return at + 1;
    }
    return 0;
}

/* The byte of the brace that opens the body; 0: none is near. The line may be that of the name or of the brace. */
static size_t body_of(const source *s, unsigned line, const char *name) {
    if (!line || line > s->lines) return 0;
    size_t length = strlen(name), at = s->at[line > MOST_HEAD ? line - MOST_HEAD : 0], end = s->at[line];
    for (; at < end; at++) {
        if (strncmp(s->code + at, name, length) != 0 || (at && is_word(s->code[at - 1]))) continue;
        size_t open = skip_space(s->code, at + length);
        size_t closed = s->code[open] == '(' ? behind(s->code, open, '(', ')') : 0;
        if (!closed) continue;
        size_t brace = skip_space(s->code, closed);
        if (s->code[brace] == '{' && line_of(s, brace) + 1 >= line) return brace;
    }
    return 0;
}

static bool add_place(hint *h, size_t line, part what, size_t indent) {
    if (h->places == MOST_PLACES) return false;
    h->place[h->places++] = (place){line, what, indent};
    return true;
}

static size_t indent_of(const source *s, size_t line) { return strspn(s->text + s->at[line], " \t"); }

/* Whether a return is a statement of its own in a block, of nothing, a name or a number, on one line. */
static bool is_plain_return(const source *s, size_t at, size_t body) {
    size_t before = at, line = line_of(s, at), c = skip_space(s->code, at + strlen("return"));
    while (before > body && isspace((unsigned char)s->code[before - 1])) before--;
    if (!strchr("{};", s->code[before - 1]) || s->at[line] + indent_of(s, line) != at) return false;
    if (s->code[c] == '-') c++;
    while (is_word(s->code[c])) c++;
    c = skip_space(s->code, c);
    return s->code[c] == ';' && line_of(s, c) == line;
}

static const char *find_ends(hint *h, size_t body, size_t behind_body, const char *name) {
    const source *s = &h->s;
    size_t last = body, inner = indent_of(s, line_of(s, body)) + 4;
    for (size_t at = body; at < behind_body; at++) {
        if (at && is_word(s->code[at - 1])) continue;
        if (strncmp(s->code + at, name, strlen(name)) == 0 && !is_word(s->code[at + strlen(name)]))
            return "it calls itself, and only its outermost call is a turn";
        if (strncmp(s->code + at, "longjmp", 7) == 0) return "it may leave by longjmp";
        if (strncmp(s->code + at, "return", 6) != 0 || is_word(s->code[at + 6])) continue;
        if (!is_plain_return(s, at, body))
            return "it has a return that is not alone on its line, or whose value is computed there";
        size_t line = line_of(s, at);
        if (!add_place(h, line, END, indent_of(s, line))) return "it has too many returns";
        last = at;
    }
    size_t end = last == body ? body + 1 : last + strcspn(s->code + last, ";") + 1;
    if (last != body && skip_space(s->code, end) == behind_body - 1) return NULL; /* it does not run off its end */
    size_t line = line_of(s, behind_body - 1);
    if (s->at[line] + indent_of(s, line) != behind_body - 1) return "its last brace is not on a line of its own";
    return add_place(h, line, END, inner) ? NULL : "it has too many returns";
}

static void find_includes(hint *h) {
    size_t line = 0;
    for (size_t i = 0; i < h->s.lines; i++)
        if (strncmp(h->s.text + h->s.at[i], "#include", 8) == 0) line = i + 1;
    add_place(h, line, INCLUDES, 0);
}

/* ---- the diff ---------------------------------------------------------------------------------------------------- */

static size_t lines_of(part what) { return what == BEGINNING ? 3 : 2; }

static void put_part(const hint *h, const place *p, const char *name, const char *flags, FILE *out) {
    int n = (int)p->indent;
    const char *indent = p->line < h->s.lines && p->part == END ? h->s.text + h->s.at[p->line] : "";
    if ((int)strspn(indent, " \t") < n) indent = "                                ";
    if (n > 32) n = 32;
    if (p->part == INCLUDES)
        fputs("+#include <tslab/malloc.h>\n+#include <tslab/tslab.h>\n", out);
    else if (p->part == BEGINNING)
        fprintf(out,
                "+%.*sEpochDomain *turn =\n+%.*s    epoch_domain_create_ex(slab_malloc_allocator(), \"%s\", %s);\n"
                "+%.*sepoch_domain_enter(turn);\n",
                n, indent, n, indent, name, flags, n, indent);
    else
        fprintf(out, "+%.*sepoch_domain_exit(turn);\n+%.*sepoch_domain_destroy(turn);\n", n, indent, n, indent);
}

static int by_line(const void *a, const void *b) {
    const place *x = a, *y = b;
    return (x->line > y->line) - (x->line < y->line);
}

static void put_diff(hint *h, const char *file, const char *name, const char *flags, FILE *out) {
    size_t added = 0;
    qsort(h->place, h->places, sizeof *h->place, by_line);
    fprintf(out, "--- %s\n+++ %s\n", file, file);
    for (size_t i = 0, end; i < h->places; i = end) {
        size_t from = h->place[i].line > CONTEXT ? h->place[i].line - CONTEXT : 0, more = 0, to, at = from;
        for (end = i; end < h->places && (end == i || h->place[end].line <= h->place[end - 1].line + 2 * CONTEXT);
             end++)
            more += lines_of(h->place[end].part);
        to = h->place[end - 1].line + CONTEXT;
        if (to > h->s.lines) to = h->s.lines;
        fprintf(out, "@@ -%zu,%zu +%zu,%zu @@\n", from + 1, to - from, from + added + 1, to - from + more);
        for (size_t k = i; k < end; k++) {
            for (; at < h->place[k].line; at++) fprintf(out, " %s\n", h->s.text + h->s.at[at]);
            put_part(h, &h->place[k], name, flags, out);
        }
        for (; at < to; at++) fprintf(out, " %s\n", h->s.text + h->s.at[at]);
        added += more;
    }
}

static const char *find(hint *h, const char *file, unsigned line, const char *name) {
    const char *dot = strrchr(file, '.');
    if (!dot || strcmp(dot, ".c") != 0) return "its source is not C";
    if (!read_source(&h->s, file)) return "its source cannot be read";
    size_t body = body_of(&h->s, line, name), behind_body = body ? behind(h->s.code, body, '{', '}') : 0;
    if (!behind_body) return "its beginning is not found in the source";
    size_t first = line_of(&h->s, body) + 1;
    if (skip_space(h->s.code, body + 1) < h->s.at[first]) return "its body begins on the line of its brace";
    find_includes(h);
    add_place(h, first, BEGINNING, indent_of(&h->s, line_of(&h->s, body)) + 4);
    return find_ends(h, body, behind_body, name);
}

static void free_hint(hint *h) {
    if (!h) return;
    free(h->s.text);
    free(h->s.code);
    free(h->s.at);
    free(h);
}

const char *hint_write(const char *file, unsigned line, const char *name, const char *flags, FILE *out) {
    hint *h = calloc(1, sizeof *h);
    const char *why = h ? find(h, file, line, name) : "there is no memory";
    if (!why) put_diff(h, file, name, flags, out);
    free_hint(h);
    return why;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static bool is_keyword(const source *s, size_t at, const char *word) {
    return (at == 0 || !is_word(s->code[at - 1])) && strncmp(s->code + at, word, strlen(word)) == 0 &&
           !is_word(s->code[at + strlen(word)]);
}

/* Behind the loop that begins at `at`: its block, or its one statement; 0: none begins there. */
static size_t behind_loop(const source *s, size_t at) {
    size_t body;
    if (is_keyword(s, at, "do")) {
        body = at + 2;
    } else if (is_keyword(s, at, "for") || is_keyword(s, at, "while")) {
        size_t open = skip_space(s->code, at + (s->code[at] == 'f' ? 3 : 5));
        body = s->code[open] == '(' ? behind(s->code, open, '(', ')') : 0;
        if (!body) return 0;
    } else {
        return 0;
    }
    body = skip_space(s->code, body);
    if (s->code[body] == '{') return behind(s->code, body, '{', '}');
    size_t end = body; /* a statement of its own may be a block of an if, or another loop */
    for (; s->code[end] && s->code[end] != ';'; end++)
        if (s->code[end] == '{' || s->code[end] == '(') {
            size_t closed = behind(s->code, end, s->code[end], s->code[end] == '{' ? '}' : ')');
            if (!closed) return 0;
            if (s->code[end] == '{') return closed;
            end = closed - 1;
        }
    return end;
}

bool hint_is_in_loop(const char *file, unsigned line) {
    hint *h = calloc(1, sizeof *h);
    bool is = false;
    if (h && read_source(&h->s, file) && line && line <= h->s.lines) {
        const source *s = &h->s;
        const size_t from = s->at[line - 1] + indent_of(s, line - 1);
        for (size_t at = 0; at < s->at[line] && !is; at++) is = behind_loop(s, at) > from;
    }
    free_hint(h);
    return is;
}
