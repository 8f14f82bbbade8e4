-- In-place operators that change self's own sizes, strides or memory; the views with the same names
-- return new tensors.

local function reshaping(signature, doc, node)
   op {signature .. " -> self", doc = doc, composite = true, func = false, nondiff = "see the view",
       node = node}
end

reshaping("squeeze_(Tensor self, dim[] dim=nil)", "squeeze of self itself.")
reshaping("unsqueeze_(Tensor self, dim dim)", "unsqueeze of self itself.")
reshaping("transpose_(Tensor self, dim dim0, dim dim1)", "transpose of self itself.")
reshaping("swapaxes_(Tensor self, dim axis0, dim axis1)", "The same as transpose_.")
reshaping("swapdims_(Tensor self, dim dim0, dim dim1)", "The same as transpose_.")
reshaping("t_(Tensor self)", "t of self itself.", "T")
op {"as_strided_(Tensor self, int[] size, int[] stride, int storage_offset=nil) -> self",
    doc = "as_strided of self itself.", composite = true, nondiff = "see the view"}
op {[[set_(Tensor self, Tensor source, int storage_offset=nil, int[] size=nil, int[] stride=nil)
      -> self]],
    doc = [[Makes self share source's memory, with source's shape or the one given; what self held
    before is left to its other views. Not for tensors that require a gradient.]],
    composite = true, func = false, nondiff = "it changes the storage"}
op {"resize_as_(Tensor self, Tensor the_template) -> self",
    doc = "resize_ to the shape of another tensor.",
    composite = true, nondiff = "it changes the storage"}

takes_complex()
