-- vocabulary.lua - the meaning of parameters in torch.audio, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
DB_multiplier: the logarithm of the reference value
Q: the quality factor: the frequency over the width of the band
a0: the coefficient of the output now
a1: the coefficient of the output a step ago
a2: the coefficient of the output two steps ago
a_coeffs: the coefficients of the outputs, the present first, (order + 1) or (filters, order + 1)
amin: smaller values count as this one
b0: the coefficient of the input now
b1: the coefficient of the input a step ago
b2: the coefficient of the input two steps ago
b_coeffs: the coefficients of the inputs, the present one first, as many as a_coeffs
batching: whether each filter has a row of the waveform of its own
beta: the shape of Kaiser's window
bins_per_octave: the steps of an octave
blank: the position of the blank token, from 1
center: whether frames are centred at their time, for which the waveform is padded
center_freq: the middle of the band in Hz
central_freq: the middle of the band in Hz
channels_first: whether channels come before frames
clamp: whether the result is cut to -1 to 1
coeff: the coefficient of the step before
complex_specgrams: (..., freq, time), complex
cutoff_freq: the frequency in Hz from which on the filter acts
db_multiplier: the logarithm of the reference value
diag_eps: the weight of the matrix's trace that is added to its diagonal
diagonal_loading: whether a small number is added to the diagonal of psd_n
emission: log-probabilities, (time, tokens)
eps: a small number that keeps divisors from zero
f_max: the highest frequency in Hz
f_min: the lowest frequency in Hz
frame_offset: the number of frames to leave out
gain: the gain in dB
hop_length: the steps between frames
iid_masks: whether each example and channel has a mask of its own
length: the number of samples of the result
lengths: the valid lengths
limiter_gain: how much of what is above the limit remains
log_probs: log-probabilities, (batch, time, tokens)
lowpass_filter_width: the number of zero crossings that the filter reaches to either side
mask: the weights of time and frequency, (..., freq, time)
mask_param: masks have fewer columns than this
mask_value: the value under a mask
mel_scale: "htk" or "slaney"
mode: "full", "valid" or "same"
momentum: the weight of the last step, at least 0 and below 1
n_fft: the size of the Fourier transform
n_freqs: the number of frequencies
n_iter: the number of steps
n_mels: the number of mel bands
n_steps: the number of steps by which the pitch rises
new_freq: the sample rate of the result
noise: the noise, of the waveform's shape
norm: the normalisation, or none
normalized: whether the spectrum is divided by the window's length; "window" or "frame_length"
normalize: whether integers become floats from -1 to 1
num_frames: at most so many frames, -1 for all
onesided: whether only frequencies from 0 to half of the sample rate are kept
orig_freq: the sample rate of the waveform
p: the largest share of an axis that is masked
pad: the zeros added at both ends
pad_mode: the form of padding when frames are centred
phase_advance: the phase that each band advances in a hop, (freq, 1)
power: the exponent of magnitudes
psd_n: the spectral densities of the noise, (..., freq, channel, channel)
psd_s: the spectral densities of the speech, (..., freq, channel, channel)
quantization_channels: the number of levels
reduction: "none", "mean" or "sum"
reference_channel: the channel's position, or weights of channels, (..., channel)
resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser"
rolloff: the share of the lower sample rate's half that is kept
rtf: the transfer functions relative to a channel, (..., freq, channel)
sample_rate: the number of samples a second
scores: log-probabilities, (time)
snr: the ratio of signal to noise in dB, (...)
specgram: (..., freq, time)
spectrogram: (..., freq, time), complex
time: the length in samples
tokens: the positions of tokens
top_db: values more than this below the largest are raised
wavelength: the length of a wave
waveform: (..., time)
win_length: the length of the window
window: the window, (win_length)
window_fn: a function that makes the window of a length
wkwargs: the options of window_fn
]]
