# Measures the times of torchaudio's functions, as bench.lua does for this package.
import time
import warnings

import torch

torch.version.cuda = "13.0"  # torchaudio refuses to load beside a PyTorch for another CUDA
import torchaudio.functional as F
import torchaudio.transforms as T

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(4, 64000) * 0.1
noise, snr = torch.randn(4, 64000), torch.ones(4)
kernel, impulse = torch.randn(4, 100), torch.randn(4, 4000)
spectrum = T.Spectrogram(power=None)(x)
power = spectrum.abs().square()
a, b = torch.tensor([1, -1.2, 0.8, -0.1]), torch.tensor([0.3, 0.2, -0.1, 0.4])
logits, targets = torch.randn(4, 100, 31, 40), torch.randint(0, 39, (4, 30), dtype=torch.int32)
frames, chars = torch.full((4,), 100, dtype=torch.int32), torch.full((4,), 30, dtype=torch.int32)


def module(transform, *given):
    return lambda: transform(*given)


cases = [
    ("Spectrogram", module(T.Spectrogram(), x)),
    ("MelSpectrogram", module(T.MelSpectrogram(), x)),
    ("MFCC", module(T.MFCC(), x)),
    ("LFCC", module(T.LFCC(), x)),
    ("InverseSpectrogram", module(T.InverseSpectrogram(), spectrum, 64000)),
    ("GriffinLim", module(T.GriffinLim(n_iter=8), power)),
    ("AmplitudeToDB", module(T.AmplitudeToDB("power", 80), power)),
    ("TimeStretch", module(T.TimeStretch(fixed_rate=1.3), spectrum)),
    ("SpectralCentroid", module(T.SpectralCentroid(16000), x)),
    ("ComputeDeltas", module(T.ComputeDeltas(), power)),
    ("SlidingWindowCmn", module(T.SlidingWindowCmn(), power.transpose(1, 2).contiguous())),
    ("Resample_44100", module(T.Resample(16000, 44100), x)),
    ("Resample_8000", module(T.Resample(16000, 8000), x)),
    ("Resample_11025", module(T.Resample(16000, 11025), x)),
    ("PitchShift", module(T.PitchShift(16000, 4), x)),
    ("SpecAugment", module(T.SpecAugment(2, 30, 2, 30), power)),
    ("Fade", module(T.Fade(1000, 1000), x)),
    ("Vol", module(T.Vol(2), x)),
    ("Loudness", module(T.Loudness(16000), x)),
    ("MuLawEncoding", module(T.MuLawEncoding(), x)),
    ("Preemphasis", module(T.Preemphasis(), x)),
    ("Deemphasis", module(T.Deemphasis(), x)),
    ("Convolve", module(T.Convolve(), x, kernel)),
    ("FFTConvolve", module(T.FFTConvolve(), x, impulse)),
    ("AddNoise", module(T.AddNoise(), x, noise, snr)),
    ("lfilter", lambda: F.lfilter(x, a, b)),
    ("lowpass_biquad", lambda: F.lowpass_biquad(x, 16000, 1000)),
    ("overdrive", lambda: F.overdrive(x)),
    ("rnnt_loss", lambda: F.rnnt_loss(logits, targets, frames, chars)),
    ("detect_pitch_frequency", lambda: F.detect_pitch_frequency(x, 16000)),
]
with torch.no_grad():
    for name, call in cases:
        call()
        best, total = 1e9, 0
        for i in range(30):
            start = time.perf_counter()
            call()
            taken = time.perf_counter() - start
            best, total = min(best, taken), total + taken
            if i >= 4 and total > 0.5:
                break
        print(f"{name:24s} {best * 1e3:9.3f}")
