-- vocabulary.lua - the meaning of parameters in torch.audio, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
DB_multiplier: the logarithm of the reference value
Q: the quality factor: the frequency over the width of the band
a0: the coefficient of the output now
a1: the coefficient of the output a step ago
a2: the coefficient of the output two steps ago
a_coeffs: the coefficients of the outputs, the present first, (order + 1) or (filters, order + 1)
allowed_gap: the seconds of pauses in it
amin: smaller values count as this one
b0: the coefficient of the input now
b1: the coefficient of the input a step ago
b2: the coefficient of the input two steps ago
b_coeffs: the coefficients of the inputs, the present one first, as many as a_coeffs
batching: whether each filter has a row of the waveform of its own
beta: the shape of Kaiser's window
bins_per_octave: the steps of an octave
blank: the position of the blank token, from 1
boot_time: the seconds of the first estimate of noise
center: whether frames are centred at their time, for which the waveform is padded
center_freq: the middle of the band in Hz
central_freq: the middle of the band in Hz
channels_first: whether channels come before frames
clamp: whether the result is cut to -1 to 1
cmn_window: the frames of a window
coeff: the coefficient of the step before
complex_specgrams: (..., freq, time), complex
cutoff_freq: the frequency in Hz from which on the filter acts
db_multiplier: the logarithm of the reference value
dct_type: the type of the cosine transform, 2
density_function: "TPDF", "RPDF" or "GPDF"
diag_eps: the weight of the matrix's trace that is added to its diagonal
diag_loading: whether a small number is added to the diagonal of the noise's densities
diagonal_loading: whether a small number is added to the diagonal of psd_n
driver: the method of least squares
emission: log-probabilities, (time, tokens)
eps: a small number that keeps divisors from zero
f_max: the highest frequency in Hz
f_min: the lowest frequency in Hz
factor: the factor of the speed
frame_offset: the number of frames to leave out
freq_mask_param: bands have fewer rows than this
fused_log_softmax: false if logits are log-probabilities
gain: the gain in dB
hop_length: the steps between frames
hp_filter_freq: the lowest frequency in Hz
hp_lifter_freq: the lowest pitch in Hz
iid_masks: whether each example and channel has a mask of its own
length: the number of samples of the result
lengths: the valid lengths
limiter_gain: how much of what is above the limit remains
log_lf: whether logarithms replace dB
log_mels: whether logarithms replace dB
log_probs: log-probabilities, (batch, time, tokens)
lowpass_filter_width: the number of zero crossings that the filter reaches to either side
lp_filter_freq: the highest frequency in Hz
lp_lifter_freq: the highest pitch in Hz
mask: the weights of time and frequency, (..., freq, time)
mask_param: masks have fewer columns than this
mask_value: the value under a mask
measure_duration: the seconds of a frame
measure_freq: the measures a second
measure_smooth_time: the seconds over which spectra are averaged
mel_scale: "htk" or "slaney"
min_cmn_window: the frames at the beginning
mode: "full", "valid" or "same"
momentum: the weight of the last step, at least 0 and below 1
multi_mask: whether there is a mask for each channel
n_fft: the size of the Fourier transform
n_filter: the number of bands
n_freq: the number of frequencies
n_freq_masks: the number of masked bands
n_freqs: the number of frequencies
n_iter: the number of steps
n_mels: the number of mel bands
n_steps: the number of steps by which the pitch rises
n_stft: the number of frequencies
n_time_masks: the number of masked spans
new_freq: the sample rate of the result
noise: the noise, of the waveform's shape
noise_down_time: how fast it falls, in seconds
noise_reduction_amount: how much of the noise is subtracted
noise_up_time: how fast the noise rises, in seconds
norm: the normalisation, or none
norm_vars: whether the deviation is divided by, too
normalize: whether integers become floats from -1 to 1
normalized: whether the spectrum is divided by the window's length; "window" or "frame_length"
num_frames: the largest number of frames, -1 for all
onesided: whether only frequencies from 0 to half of the sample rate are kept
orig_freq: the sample rate of the waveform
p: the largest share of an axis that is masked
pad: the zeros added at both ends
pad_mode: the form of padding when frames are centred
phase_advance: the phase that each band advances in a hop, (freq, 1)
power: the exponent of magnitudes
pre_trigger_time: the seconds that are kept before it
psd_n: the spectral densities of the noise, (..., freq, channel, channel)
psd_s: the spectral densities of the speech, (..., freq, channel, channel)
quantization_channels: the number of levels
rand_init: whether phases are random at first
reduction: "none", "mean" or "sum"
reference_channel: the channel's position, or weights of channels, (..., channel)
resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser"
rolloff: the share of the lower sample rate's half that is kept
rtf: the transfer functions relative to a channel, (..., freq, channel)
sample_rate: the number of samples a second
scores: log-probabilities, (time)
search_time: the seconds before the trigger in which the sound may begin
snr: the ratio of signal to noise in dB, (...)
specgram: (..., freq, time)
spectrogram: (..., freq, time), complex
time: the length in samples
time_mask_param: spans have fewer frames than this
tokens: the positions of tokens
top_db: values more than this below the largest are raised
trigger_level: the level that begins the sound
trigger_time: the seconds over which levels are averaged
waveform: (..., time)
wavelength: the length of a wave
win_length: the length of the window
window: the window, (win_length)
window_fn: a function that makes the window of a length
wkwargs: the options of window_fn
zero_masking: whether masks are zero instead of the mean
]]
