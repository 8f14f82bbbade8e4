-- torch.fft: discrete Fourier transforms, and functions that compute and reorder their frequencies.
--
-- Users call compositions, which select and resize dimensions. Three operators transform: from
-- complex to complex numbers, from real numbers to the first half of a Hermitian line, and back.

local function fft(entry)
   entry[1] = "fft_" .. entry[1]
   entry.name, entry.module = entry[1]:match "^fft_([%w_]+)", "fft"
   entry.method, entry.composite = false, true
   op(entry)
end

-- Sentences that the documentation of all transforms repeats.
local complex <const> = "Integers count as the default dtype, half types as float32."
local norm <const> = [[norm chooses which results are divided by the number n of elements: those of
    inverse transforms ("backward", the default) or of forward ones ("forward"); "ortho" divides
    both by sqrt(n).]]
local sized <const> = "The dimension is first cut, or padded with zeros at its end, to n elements."
local signal <const> = "(Tensor input, int n=nil, dim dim=-1, string norm=nil) -> Tensor"
local plane <const> = "(Tensor input, int[] s=nil, dim[] dim={-2, -1}, string norm=nil) -> Tensor"
local all <const> = "(Tensor input, int[] s=nil, dim[] dim=nil, string norm=nil) -> Tensor"

-- Declares the three functions of a transform: along dim, along two dimensions, and along several.
local function forms(name, entry)
   local one = {name .. signal, doc = ("%s of input along dim. %s %s %s"):format(
      entry.doc, sized, norm, complex), examples = entry.one, node = entry.node}
   local two = {name .. "2" .. plane, doc = ("%s of input along two dimensions, by default the last"
      .. " ones: torch.fft.%sn for these."):format(entry.doc, name), examples = entry.two,
      node = entry.node}
   local any = {name .. "n" .. all, doc = ([[%s of input along the dimensions dim, by default the
    last ones for which s has sizes, or all. s gives each dimension's n (-1: as it is).%s %s %s]])
      :format(entry.doc, entry.last or "", norm, complex), examples = entry.any,
      node = entry.node}
   fft(one)
   if entry.example then example(name, entry.example) end
   fft(two)
   fft(any)
end

local halves <const> = " The last of these dimensions has half the elements."

forms("fft", {doc = "Computes the discrete Fourier transform",
   one = {"T(5)", "T(2, 3), 4, 1, 'ortho'", "T(2, 6), 4, 2, 'forward'"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}", "T(2, 3, 2), {3, -1}, {1, 2}, 'ortho'"},
   example = [[
   print(torch.fft.fft(torch.tensor {1.0, 2.0, 3.0, 4.0}))
   --> tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])]]})
forms("ifft", {doc = "Computes the inverse discrete Fourier transform",
   one = {"T(5)", "T(2, 3), 4, 1, 'ortho'"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}, nil, 'forward'"},
   example = [[
   print(torch.fft.ifft(torch.fft.fft(torch.tensor {1.0, 2.0})))
   --> tensor([1.+0.j, 2.+0.j])]]})
forms("rfft", {doc = [[Computes the first n // 2 + 1 elements, which determine the others of a real
    signal, of the discrete Fourier transform]], last = halves, node = "FftR2C",
   one = {"T(5)", "T(2, 6)", "T(2, 3), 4, 1, 'ortho'"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}", "T(2, 3, 2), nil, {1, 2}"},
   example = [[
   print(torch.fft.rfft(torch.tensor {1.0, 2.0, 3.0, 4.0}))
   --> tensor([10.+0.j, -2.+2.j, -2.+0.j])]]})
forms("irfft", {doc = [[Computes the inverse of torch.fft.rfft: n real numbers, by default
    2 (m - 1), from the m elements]], last = halves,
   one = {"T(5)", "T(2, 4), 5", "T(3, 2), 4, 1, 'ortho'", "T(4), 7"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}", "T(2, 3, 2), {2, 5}, {1, 2}"},
   example = [[
   local half = torch.fft.rfft(torch.tensor {1.0, 2.0, 3.0})
   print(torch.fft.irfft(half, 3)) -- an odd n must be given
   --> tensor([1., 2., 3.])]]})
forms("hfft", {doc = [[Computes the discrete Fourier transform, n real numbers, by default
    2 (m - 1), of a Hermitian signal, whose first m elements are those]], last = halves,
   one = {"T(5)", "T(2, 4), 5", "T(3, 2), 4, 1, 'ortho'"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}"},
   example = [[
   print(torch.fft.hfft(torch.tensor {1.0, 2.0, 1.0}))
   --> tensor([ 6.,  0., -2.,  0.])]]})
forms("ihfft", {doc = [[Computes the inverse of torch.fft.hfft: the first n // 2 + 1 elements of a
    Hermitian signal, from the n real numbers]], last = halves,
   one = {"T(5)", "T(2, 6)", "T(2, 3), 4, 1, 'ortho'"}, two = {"T(2, 3, 4)"},
   any = {"T(2, 3)", "T(2, 3, 2), {3}"},
   example = [[
   print(torch.fft.ihfft(torch.tensor {6.0, 0.0, -2.0, 0.0}))
   --> tensor([1.-0.j, 2.-0.j, 1.-0.j])]]})

local options <const> = "*, dtype dtype=nil, device device=nil"

fft {"fftfreq(int n, float d=1.0, " .. options .. ") -> Tensor",
    doc = [[Returns the frequencies of torch.fft.fft's n results for samples at distance d: 0, 1,
    ..., then the negative ones, all divided by n * d.]],
    creation = true, nondiff = "it makes new values"}
example("fftfreq", [[
   print(torch.fft.fftfreq(5))
   --> tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])]])
fft {"rfftfreq(int n, float d=1.0, " .. options .. ") -> Tensor",
    doc = [[Returns the frequencies of torch.fft.rfft's n // 2 + 1 results for n samples at distance
    d.]], creation = true, nondiff = "it makes new values"}
example("rfftfreq", [[
   print(torch.fft.rfftfreq(5))
   --> tensor([0.0000, 0.2000, 0.4000])]])
fft {"fftshift(Tensor input, dim[1] dim=nil) -> Tensor",
    doc = [[Rolls the dimensions dim (by default all) so that frequency 0, the first element, moves
    to the middle.]], node = "Roll",
    examples = {"T(5)", "T(3, 4)", "T(3, 4), 2", "T(3, 4), {1, 2}"}}
example("fftshift", [[
   print(torch.fft.fftshift(torch.fft.fftfreq(5)))
   --> tensor([-0.4000, -0.2000,  0.0000,  0.2000,  0.4000])]])
fft {"ifftshift(Tensor input, dim[1] dim=nil) -> Tensor",
    doc = "Undoes torch.fft.fftshift.", node = "Roll", examples = {"T(5)", "T(3, 4)", "T(3, 4), 2"}}
example("ifftshift", [[
   print(torch.fft.ifftshift(torch.tensor {-2, -1, 0, 1, 2}))
   --> tensor([ 0,  1,  2, -2, -1])]])

-- `sign` is the sign of the exponent, and `scale` is a factor of the results. fft_real returns all
-- n elements of the transform of real numbers. fft_r2c returns, and fft_c2r takes, only the first
-- half along the last dimension of `dim`. The exponent's sign is negative for fft_r2c and positive
-- for fft_c2r.
op {"fft_c2c(Tensor self, dim[] dim, int sign, float scale) -> Tensor",
    name = "fft", node = "FftC2C", internal = true,
    grad = {self = "fft_c2c(grad, dim, -sign, scale)"}}
op {"fft_real(Tensor self, dim[] dim, int sign, float scale) -> Tensor",
    name = "fft", node = "FftR2C", internal = true,
    grad = {self = "fft_real_backward(grad, dim, -sign, scale)"}}
op {"fft_real_backward(Tensor grad, dim[] dim, int sign, float scale) -> Tensor",
    internal = true, composite = true}
op {"fft_r2c(Tensor self, dim[] dim, float scale) -> Tensor",
    name = "rfft", node = "FftR2C", internal = true,
    grad = {self = "fft_r2c_backward(grad, sizes(self), dim, scale)"}}
op {"fft_r2c_backward(Tensor grad, int[] sizes, dim[] dim, float scale) -> Tensor",
    internal = true, composite = true}
op {"fft_c2r(Tensor self, dim[] dim, int n, float scale) -> Tensor",
    name = "irfft", node = "FftC2R", internal = true,
    grad = {self = "fft_c2r_backward(grad, dim, scale)"}}
op {"fft_c2r_backward(Tensor grad, dim[] dim, float scale) -> Tensor",
    internal = true, composite = true}

takes_complex [[fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft fft_irfft2
   fft_irfftn fft_hfft fft_hfft2 fft_hfftn fft_fftshift fft_ifftshift fft_c2c fft_real_backward
   fft_r2c_backward fft_c2r]]
