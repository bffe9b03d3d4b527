/* Draws what a network has learnt: a picture of the size given, 256 x 256 unless told otherwise. */

#include <stdio.h>
#include <stdlib.h>

#include "colour.h"

int main(int count, char **words) {
    size_t width = count > 1 ? (size_t)atoi(words[1]) : 256, n = width * width, k;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    unsigned char *pixels = malloc(3 * n);
    colour_arguments a = {0};
    FILE *file;
    int code;

    for (k = 0; k < n; k++) {
        x[k] = (k % width + 0.5f) / width;
        y[k] = (k / width + 0.5f) / width;
    }
    a.threads = 2;
    a.x = x;
    a.y = y;
    a.x_size = a.y_size = n;
    a.result_red = pixels;
    a.result_green = pixels + n;
    a.result_blue = pixels + 2 * n;
    a.result_red_capacity = a.result_green_capacity = a.result_blue_capacity = n;
    code = colour(&a);
    if (code) {
        fprintf(stderr, "%s\n", colour_message(code));
        return 1;
    }

    file = fopen("field.ppm", "wb");
    if (!file) return 1;
    fprintf(file, "P6 %lu %lu 255\n", (unsigned long)width, (unsigned long)width);
    for (k = 0; k < n; k++) {
        putc(a.result_red[k], file);
        putc(a.result_green[k], file);
        putc(a.result_blue[k], file);
    }
    fclose(file);
    printf("field.ppm: %lu x %lu pixels\n", (unsigned long)width, (unsigned long)width);
    return 0;
}
