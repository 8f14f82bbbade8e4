-- Operators that move elements from channels to pixels or back, and operators that permute
-- channels.

local function F(entry)
   entry.module, entry.method, entry.composite = "nn.functional", false, true
   op(entry)
end

F {"pixel_shuffle(Tensor input, int upscale_factor) -> Tensor", also = true,
   node = "PixelShuffle",
   doc = "Rearranges (..., C * r * r, H, W) to (..., C, H * r, W * r), where r is upscale_factor.",
   examples = {"T(2, 8, 2, 3), 2", "T(9, 1, 2), 3", "T(4, 2, 2), 1"}}
F {"pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor", also = true,
   node = "PixelUnshuffle",
   doc = "Reverses pixel_shuffle: rearranges (..., C, H * r, W * r) to (..., C * r * r, H, W).",
   examples = {"T(2, 2, 4, 6), 2", "T(1, 3, 6), 3"}}
F {"channel_shuffle(Tensor input, int groups) -> Tensor", also = true,
   node = "ChannelShuffle",
   doc = [[Reorders the channels of (N, C, ...): first the first channel of each of the `groups`
   groups, then the second ones, and so on.]],
   examples = {"T(2, 6, 3), 2", "T(1, 4, 2, 2), 2"}}

takes_complex()
