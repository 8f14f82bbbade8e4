-- Padding: enlarges or crops the last dimensions of a tensor at both ends.

op {"pad(Tensor input, int[] pad, string mode='constant', Number value=nil) -> Tensor",
    module = "nn.functional",
    method = false,
    doc = [[input with pad[1] elements more before the last dimension and pad[2] behind it, pad[3]
    and pad[4] around the one before, and so on; negative numbers cut off. What is added is value
    (0 if nil) in mode 'constant'; the elements mirrored at the first and the last one, which are
    not repeated, in 'reflect'; the nearest element in 'replicate'; the other end's elements in
    'circular'. These three leave the first dimension as it is and reach the last three at most;
    'reflect' adds fewer elements than there are, 'circular' no more.]],
    composite = true,
    autocast = {cpu = "float32",
       when = "strcmp(mode, \"replicate\") == 0 || (strcmp(mode, \"reflect\") == 0 && pad.n < 6)"},
    examples = {"T(2, 3), {1, 2}", "T(2, 3, 4), {1, 0, 2, -1}, 'constant', 1.5",
                "T(2, 3, 4), {-1, 2, 1, -2}",
                "T(2, 3, 4), {3, 1}, 'reflect'", "T(1, 2, 3, 4), {1, 2, 2, 1}, 'reflect'",
                "T(1, 2, 3, 3, 3), {2, 1, 1, 2, 0, 1}, 'reflect'", "T(3, 4), {2, 5}, 'replicate'",
                "T(2, 3, 4), {1, 2, 3, 0}, 'replicate'", "T(2, 3, 4), {4, 2}, 'circular'",
                "T(1, 2, 3, 4), {1, -1, 3, 2}, 'circular'"}}
example("pad", [=[
   local x = torch.tensor {{1, 2}, {3, 4}}
   print(torch.nn.functional.pad(x, {1, 0})) -- one 0 before each row
   --> tensor([[0, 1, 2],
   -->         [0, 3, 4]])]=])

op {"constant_pad(Tensor self, int[] pad, Number value) -> Tensor",
    name = "pad", node = "ConstantPadNd", internal = true,
    grad = {self = "constant_unpad(grad, pad)"}}
op {"constant_unpad(Tensor self, int[] pad) -> Tensor", internal = true, composite = true}

takes_complex "pad constant_pad"
