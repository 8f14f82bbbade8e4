-- Operators that compute sums of products, which an equation describes.

local equation = [[Sums products by an equation such as "ij,jk->ik", which has a letter for each
    dimension of each operand, and after "->" those of the result. Letters that the result lacks are
    summed over; without "->" the result has the letters that occur once, in alphabetical order.
    "..." stands for dimensions that are broadcast.]]
op {"einsum(string equation, Tensor[] operands...) -> Tensor", doc = equation, composite = true,
    out = false,
    autocast = "lower",
    examples = {"'ij,jk->ik', {T(2, 3), T(3, 4)}", "'ii', {T(3, 3)}",
                "'bij,bjk->bik', {T(2, 2, 3), T(2, 3, 2)}",
                "'...ij->...ji', {T(2, 3, 4)}", "'i,j', {T(2), T(3)}",
                "'ij,j,k->ik', {T(2, 3), T(3), T(2)}",
                "'ij,kj->ik', T(2, 3), T(4, 3)"}}
example("einsum", [[
   local a, b = torch.ones(2, 3), torch.ones(3, 4)
   print(table.unpack(torch.einsum("ij,jk->ik", a, b).shape))
   --> 2	4
   print(torch.einsum("ij->", a):item())
   --> 6.0]])

takes_complex()
