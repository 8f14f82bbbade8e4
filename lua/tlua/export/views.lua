-- views.lua - names of the operators whose results may share memory with an argument.
-- spec/graph/views_spec.lua calls operators and compares them with this list.

local M = {}

for name in ([[adjoint alpha_dropout as_strided atleast_1d atleast_2d atleast_3d bfloat16 bool
      broadcast_tensors broadcast_to byte cartesian_prod cdouble cfloat char chunk conj contiguous
      cpu cuda detach diagonal double dropout dsplit einsum expand expand_as feature_alpha_dropout
      feature_dropout flatten float getitem half hsplit imag int long meshgrid movedim moveaxis
      narrow permute pixel_shuffle pixel_unshuffle positive ravel real reshape reshape_as
      resolve_conj resolve_neg select short slice split split_with_sizes squeeze swapaxes swapdims t
      tensor_split to transpose type_as unbind unflatten unfold unsqueeze view view_as
      view_as_complex view_as_real vsplit]]):gmatch "%S+" do
   M[name] = true
end

return M
