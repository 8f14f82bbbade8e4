-- vocabulary.lua - describes parameters of functions of torch.audio, for the function `help` and
-- for the manual. lua/tlua/repl/vocabulary.lua explains the format.
return [[
DB_multiplier: the logarithm of the reference value
Q: the quality factor: the frequency over the width of the band
a0: the coefficient of the present output
a1: the coefficient of the output one step before
a2: the coefficient of the output two steps before
a_coeffs: the coefficients of the outputs, the present first, (order + 1) or (filters, order + 1)
activation: the name of the activation: "relu", "gelu" or "silu"
allowed_gap: the longest pause in seconds within the sound
amin: smaller values are replaced by this one
aux: the last layer
aux_num_out: the features of the last layer, or none
b0: the coefficient of the present input
b1: the coefficient of the input one step before
b2: the coefficient of the input two steps before
b_coeffs: the coefficients of the inputs, the present one first, as many as a_coeffs
batching: whether each filter is applied to its own row of the waveform
beam_width: the number of hypotheses that are kept
beta: the shape of Kaiser's window
bins_per_octave: the number of steps in an octave
blank: the position of the blank token, from 1
boot_time: the seconds of the first estimate of noise
center: whether the waveform is padded so that frames are centred at their time
center_freq: the middle of the band in Hz
central_freq: the middle of the band in Hz
channels_first: whether channels come before frames
clamp: whether the result is clamped to -1 to 1
cmn_window: the number of frames in a window
coeff: the coefficient of the previous sample
complex_specgrams: (..., freq, time), complex
convolution_first: whether the convolution comes before the attention
cutoff_freq: the cutoff frequency in Hz
d_model: the width of the model
db_multiplier: the logarithm of the reference value
dct_type: the type of the cosine transform, 2
decoder_attention_heads: the heads of the decoder's attention
decoder_ffn_dim: the width of the decoder's feed-forward layers
decoder_layers: the layers of the decoder
density_function: "TPDF", "RPDF" or "GPDF"
depthwise_conv_kernel_size: the steps of the convolutions, an odd number
diag_eps: the weight of the matrix's trace that is added to its diagonal
diag_loading: whether a small number is added to the diagonal of the noise's densities
diagonal_loading: whether a small number is added to the diagonal of psd_n
driver: the method of least squares
dropout: the probability of zeros
emission: log-probabilities, (time, tokens)
enc_kernel_size: the samples of the encoder's filters
enc_num_feats: the features of the encoder
encoder: the transformer
encoder_attention_dropout: the probability of zeros in attention
encoder_attention_heads: the heads of the encoder's attention
encoder_dropout: the probability of zeros behind a layer's parts
encoder_ff_interm_dropout: the probability of zeros within them
encoder_ff_interm_features: the width of the feed-forward layers
encoder_ffn_dim: the width of the encoder's feed-forward layers
encoder_layer_drop: the probability of leaving a layer out
encoder_layer_norm_first: whether layers normalise their inputs instead of their results
encoder_layers: the layers of the encoder
encoder_num_heads: the heads of attention
encoder_num_layers: the number of layers
encoder_pos_conv_groups: the groups of the positions' filters
encoder_pos_conv_kernel: the steps of the positions' filters
encoder_projection_dropout: the probability of zeros behind the projection
encoding_dim: the features that sound and tokens are encoded in
eps: a small number that keeps divisors from being zero
f_max: the highest frequency in Hz
f_min: the lowest frequency in Hz
factor: the factor of the speed
feature_extractor: the convolutions
ffn_dim: the width of the feed-forward layers
frame_offset: the number of frames to skip at the beginning
freq_mask_param: bands have fewer rows than this
fused_log_softmax: false if logits are log-probabilities
gain: the gain in dB
hop_length: the number of samples between frames
hp_filter_freq: the lowest frequency in Hz
hp_lifter_freq: the lowest pitch in Hz
hypo_sort_key: a function that returns the rank of a hypothesis; by default, its score per token
iid_masks: whether each example and channel has a mask of its own
input_dim: the number of features
input_type: "waveform", "power_spectrum" or "mfcc"
left_context_length: the frames before a segment that it attends to
length: the number of samples of the result
lengths: the valid lengths
limiter_gain: how much of what is above the limit remains
log_lf: whether logarithms replace dB
log_mels: whether logarithms replace dB
log_probs: log-probabilities, (batch, time, tokens)
lowpass_filter_width: the number of zero crossings that the filter reaches to either side
lp_filter_freq: the highest frequency in Hz
lp_lifter_freq: the highest pitch in Hz
lstm_dropout: the probability of dropout after each LSTM
lstm_layer_norm: whether the gates and cells of LSTMs are normalised
lstm_layer_norm_epsilon: the small number that the norm adds to variances
mask: the weights of time and frequency, (..., freq, time)
mask_param: masks have fewer columns than this
mask_value: the value under a mask
max_memory_size: the number of earlier segments whose means a segment attends to
max_source_positions: the number of the encoder's steps
max_target_positions: the largest number of tokens
measure_duration: the length of a frame in seconds
measure_freq: the number of measures per second
measure_smooth_time: the seconds over which spectra are averaged
mel_scale: "htk" or "slaney"
min_cmn_window: the least number of frames in a window
mode: "full", "valid" or "same"
momentum: the weight of the previous step, at least 0 and below 1
msk_activate: "sigmoid" or "relu"
msk_kernel_size: the steps of the masks' filters
msk_num_feats: the features of the masks' layers
msk_num_hidden_feats: the features within the masks' layers
msk_num_layers: the layers of a stack
msk_num_stacks: the number of stacks
multi_mask: whether there is a mask for each channel
n_class: the number of classes
n_feature: the number of features
n_fft: the size of the Fourier transform
n_filter: the number of bands
n_freq: the number of frequencies
n_freq_masks: the number of masked bands
n_freqs: the number of frequencies
n_hidden: the width of the layers
n_iter: the number of steps
n_mels: the number of mel bands
n_steps: the number of steps by which the pitch rises
n_stft: the number of frequencies
n_time_masks: the number of masked spans
negative_inf: the score of keys that a query does not see
new_freq: the sample rate of the result
noise: the noise, of the waveform's shape
noise_down_time: how fast the noise falls, in seconds
noise_reduction_amount: how much of the noise is subtracted
noise_up_time: how fast the noise rises, in seconds
norm: the normalisation, or none
norm_vars: whether frames are also divided by the standard deviation
normalize: whether integers become floats from -1 to 1
normalized: "window" or true divides by the norm of the window, "frame_length" by sqrt(n_fft)
num_classes: the number of classes
num_features: the number of features
num_frames: the largest number of frames, -1 for all
num_heads: the heads of attention
num_layers: the number of layers
num_lstm_layers: the number of LSTMs
num_mel_bins: the number of mel bands
num_sources: the number of voices
num_symbols: the number of tokens, the blank one included
onesided: whether only frequencies from 0 to half of the sample rate are kept
orig_freq: the sample rate of the waveform
p: the largest share of an axis that is masked
pad: the zeros added at both ends
pad_mode: the form of padding when frames are centred
phase_advance: the phase that each band advances in a hop, (freq, 1)
power: the exponent of magnitudes
pre_trigger_time: the seconds that are kept before the sound
psd_n: the spectral densities of the noise, (..., freq, channel, channel)
psd_s: the spectral densities of the speech, (..., freq, channel, channel)
quantization_channels: the number of levels
rand_init: whether phases are random at first
reduction: "none", "mean" or "sum"
reference_channel: the channel's position, or weights of channels, (..., channel)
resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser"
right_context_length: the frames after a segment that it attends to
rolloff: the share of the lower sample rate's half that is kept
rtf: the transfer functions relative to a channel, (..., freq, channel)
sample_rate: the number of samples per second
scores: log-probabilities, (time)
search_time: the seconds before the trigger in which the sound may begin
segment_length: the frames of a segment
snr: the ratio of signal to noise in dB, (...)
specgram: (..., freq, time)
spectrogram: (..., freq, time), complex
step_max_tokens: the most tokens that are emitted in a step of time
symbol_embedding_dim: the features of embeddings of tokens, and of LSTMs
tanh_on_mem: whether memories pass tanh, instead of being clamped to -10 to 10
temperature: the number that scores are divided by
time: the length in samples
time_mask_param: spans have fewer frames than this
time_reduction_input_dim: the features of a frame before frames are joined
time_reduction_stride: the number of frames that are joined to one
tokens: the positions of tokens
top_db: values more than this below the largest are raised
transformer_activation: the activation of the Emformer: "relu", "gelu" or "silu"
transformer_dropout: the probability of dropout in the Emformer
transformer_ffn_dim: the hidden features of the Emformer
transformer_left_context_length: the Emformer's left context, in joined frames
transformer_max_memory_size: the number of earlier segments that the Emformer remembers
transformer_num_heads: the heads of attention of the Emformer
transformer_num_layers: the number of layers of the Emformer
transformer_tanh_on_mem: whether memories pass tanh, instead of being clamped
transformer_weight_init_scale_strategy: the scale of first weights: "depthwise", "constant", "none"
trigger_level: the level that begins the sound
trigger_time: the seconds over which levels are averaged
use_group_norm: whether group norm replaces batch norm
vocab_size: the number of tokens
waveform: (..., time)
wavelength: the length of a wave
weight_init_scale_strategy: the scale of first weights: "depthwise", "constant", "none"
win_length: the length of the window
window: the window, (win_length)
window_fn: a function that returns a window of a given length
wkwargs: the options of window_fn
zero_masking: whether masks are zero instead of the mean
]]
