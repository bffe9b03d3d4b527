// Finds out how thick the torus of a picture is: the renderer and its derivative come from Python,
// the optimizer (Adam) is this program's.

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "mismatch.h"
#include "view.h"

static std::vector<float> picture(float thickness) {
    view_arguments a{};
    a.thickness = &thickness;
    float none;
    a.result = &none;
    view(&a);  // says how many pixels there are
    std::vector<float> pixels(a.result_size);
    a.result = pixels.data();
    a.result_capacity = pixels.size();
    if (int code = view(&a)) throw std::runtime_error(view_message(code));
    return pixels;
}

struct Loss {
    std::vector<float> wanted;

    float operator()(float thickness, float &slope) const {
        float loss;
        mismatch_arguments a{};
        a.thickness = &thickness;
        a.thickness_grad = &slope;
        a.wanted = wanted.data();
        a.wanted_size = wanted.size();
        a.result = &loss;
        if (int code = mismatch(&a)) throw std::runtime_error(mismatch_message(code));
        return loss;
    }
};

struct Adam {
    float rate, mean = 0, square = 0, left = 1, square_left = 1;

    float step(float x, float slope) {
        mean = 0.9f * mean + 0.1f * slope;
        square = 0.99f * square + 0.01f * slope * slope;
        left *= 0.9f;  // of the zeros that the means begin with
        square_left *= 0.99f;
        float m = mean / (1 - left), s = square / (1 - square_left);
        return x - rate * m / (std::sqrt(s) + 1e-8f);
    }
};

int main() {
    const Loss loss{picture(0.3f)};
    Adam adam{0.005f};
    float thickness = 0.2f, slope, now = 0;
    for (int k = 0; k < 100; k++) {
        now = loss(thickness, slope);
        thickness = adam.step(thickness, slope);
    }
    std::printf("thickness %.9g after 100 steps, error %.9g\n", thickness, now);
}
