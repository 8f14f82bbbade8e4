-- Operators that find the positions of values in sorted sequences.

local search_options = "*, bool out_int32=false, bool right=false"
op {"searchsorted(Tensor sorted_sequence, Operand values, " .. search_options
       .. ", string side=nil, Tensor sorter=nil) -> Tensor",
    doc = [[Returns the position in sorted_sequence, ascending along its last dimension, before
    which each of values would be inserted: the first one that keeps the order or, with right = true
    (side = "right"), the last. If all elements are smaller it is one past the end. sorted_sequence
    has one dimension, or the same leading ones as values.]],
    composite = true, nondiff = "positions",
    examples = {"torch.range(1, 5), T(3, 4)", "torch.range(1, 5), 2.5, {right = true}",
                "T(2, 5):cumsum(2), T(2, 3)"}}
example("searchsorted", [[
   local edges = torch.tensor {1.0, 3.0, 5.0}
   print(torch.searchsorted(edges, torch.tensor {0.0, 3.0, 9.0}))
   --> tensor([1, 2, 4])]])
op {"bucketize(Operand self, Tensor boundaries, " .. search_options .. ") -> Tensor",
    doc = "Computes searchsorted(boundaries, self); boundaries is a vector.",
    composite = true, method = false, nondiff = "positions",
    examples = {"T(3, 4), torch.range(-1, 1)"}}
example("bucketize", [[
   local edges = torch.tensor {1.0, 3.0, 5.0}
   print(torch.bucketize(torch.tensor {0.0, 2.0, 9.0}, edges))
   --> tensor([1, 2, 4])]])
op {"search(Tensor sorted_sequence, Tensor values, bool right) -> Tensor", internal = true,
    nondiff = "positions"}
