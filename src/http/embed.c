/* Prints a C file that holds files: embed PATH TYPE FILE [PATH TYPE FILE]... */
#include <stdio.h>

static int put_file(const char *name, int number) {
    FILE *file = fopen(name, "rb");
    int c;
    unsigned n = 0;
    if (!file) {
        perror(name);
        return 1;
    }
    printf("static const unsigned char file_%d[] = {", number);
    while ((c = getc(file)) != EOF) printf("%s%d,", n++ % 32 ? "" : "\n", c);
    puts("\n};");
    return fclose(file) != 0 || n == 0;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc % 3 != 1) {
        fputs("usage: embed PATH TYPE FILE [PATH TYPE FILE]...\n", stderr);
        return 2;
    }
    puts("#include \"http/assets.h\"\n");
    for (int i = 1; i < argc; i += 3)
        if (put_file(argv[i + 2], i / 3) != 0) return 1;
    puts("const http_asset http_assets[] = {");
    for (int i = 1; i < argc; i += 3)
        printf("    {\"%s\", \"%s\", file_%d, sizeof file_%d},\n", argv[i], argv[i + 1], i / 3, i / 3);
    puts("    {NULL, NULL, NULL, 0},\n};");
    return ferror(stdout) != 0;
}
