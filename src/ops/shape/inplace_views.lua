-- In-place operators that change the sizes, strides or memory of self. The operators of the same
-- names without an underscore return views instead.

local function reshaping(signature, doc, node)
   op {signature .. " -> self", doc = doc, composite = true, func = false, nondiff = "see the view",
       node = node}
end

reshaping("squeeze_(Tensor self, dim[] dim=nil)",
   "Removes the dimensions of size 1, or those among dim that have size 1, in place.")
reshaping("unsqueeze_(Tensor self, dim dim)",
   "Inserts a dimension of size 1 at position dim, in place.")
reshaping("transpose_(Tensor self, dim dim0, dim dim1)", "Swaps two dimensions, in place.")
reshaping("swapaxes_(Tensor self, dim axis0, dim axis1)", "The same as transpose_.")
reshaping("swapdims_(Tensor self, dim dim0, dim dim1)", "The same as transpose_.")
reshaping("t_(Tensor self)",
   "Transposes a matrix in place; a tensor of fewer dimensions stays as it is.", "T")
op {"as_strided_(Tensor self, int[] size, int[] stride, int storage_offset=nil) -> self",
    doc = [[Gives self other sizes, strides (in elements) and offset over its own storage, in
    place.]], composite = true, nondiff = "see the view"}
op {[[set_(Tensor self, Tensor source, int storage_offset=nil, int[] size=nil, int[] stride=nil)
      -> self]],
    doc = [[Makes self share source's memory, with source's shape or the given one. Other views of
    self's old memory keep it. Tensors that require a gradient are refused.]],
    composite = true, func = false, nondiff = "it changes the storage"}
op {"resize_as_(Tensor self, Tensor the_template) -> self",
    doc = "Resizes self to the shape of another tensor, as resize_ does.",
    composite = true, nondiff = "it changes the storage"}

takes_complex()

takes_stored()
