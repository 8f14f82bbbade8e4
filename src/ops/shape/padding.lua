-- Operators that pad a tensor, that is, enlarge or crop its last dimensions at both ends.

op {"pad(Tensor input, int[] pad, string mode='constant', Number value=nil) -> Tensor",
    module = "nn.functional",
    method = false,
    doc = [[Adds pad[1] elements before and pad[2] after the last dimension, pad[3] and pad[4]
    around the dimension before it, and so on; negative numbers remove elements. Mode 'constant'
    adds value (0 if nil); 'reflect' mirrors the input at its first and last element, which are not
    repeated; 'replicate' repeats the nearest element; 'circular' adds the elements of the other
    end. The last three modes pad at most the last three dimensions, and never the first one.
    'reflect' adds fewer elements than the dimension has, 'circular' at most as many.]],
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
