/* A flight into the Mandelbrot set, as pictures zoom000.pgm, zoom001.pgm, ... The number of frames is
   an argument. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "frame.h"

enum { WIDTH = 480, HEIGHT = 270, PIXELS = WIDTH * HEIGHT };

static float x[PIXELS], y[PIXELS];
static unsigned char pixels[PIXELS];

int main(int count, char **words) {
    int frames = count > 1 ? atoi(words[1]) : 60, k, code;
    float re = -0.743643f, im = 0.131826f, scale = 1;
    frame_arguments a = {0};
    struct timespec begin, end;

    for (k = 0; k < PIXELS; k++) {
        x[k] = (k % WIDTH - WIDTH / 2) * (2.0f / HEIGHT);
        y[k] = (HEIGHT / 2 - k / WIDTH) * (2.0f / HEIGHT);
    }
    a.threads = 2;
    a.x = x;
    a.y = y;
    a.x_size = a.y_size = a.result_capacity = PIXELS;
    a.re = &re;
    a.im = &im;
    a.scale = &scale;
    a.result = pixels;
    timespec_get(&begin, TIME_UTC);
    for (k = 0; k < frames; k++) {
        char name[32];
        FILE *file;
        code = frame(&a);
        if (code) {
            fprintf(stderr, "%s\n", frame_message(code));
            return 1;
        }
        sprintf(name, "zoom%03d.pgm", k);
        file = fopen(name, "wb");
        if (!file) return 1;
        fprintf(file, "P5 %d %d 255\n", WIDTH, HEIGHT);
        fwrite(pixels, 1, PIXELS, file);
        fclose(file);
        scale *= 0.96f;
    }
    timespec_get(&end, TIME_UTC);
    printf("%d frames of %d x %d pixels, %.0f a second\n", frames, WIDTH, HEIGHT,
           frames / (end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec)));
    return 0;
}
