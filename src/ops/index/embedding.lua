-- Operators that look up vectors by their position in a table. Positions count from 1.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {[[embedding(Tensor input, Tensor weight, index padding_idx=nil, float max_norm=nil,
      float norm_type=2.0, bool scale_grad_by_freq=false, bool sparse=false) -> Tensor]],
   doc = [[Returns the rows of weight (V, D) at the positions in input (...), as (..., D). The row
   padding_idx gets no gradient. With max_norm, used rows with a larger norm are first scaled down
   to it, in place. scale_grad_by_freq divides a row's gradient by how often the row was used.
   With sparse = true a leaf weight gets a sparse gradient, of the rows that were used; a pass with
   create_graph makes it dense.]],
   composite = true, examples = {"I(5, 3), T(5, 2)", "I(5, 2, 3), T(5, 4)", "I(5), T(5, 4)"}}
example("embedding", [=[
   local vectors = torch.tensor {{0.0, 0.0}, {1.0, 2.0}, {3.0, 4.0}}
   local words = torch.tensor {3, 1} -- positions of rows count from 1
   print(torch.nn.functional.embedding(words, vectors))
   --> tensor([[3., 4.],
   -->         [0., 0.]])]=])
op {"embedding_rows(Tensor weight, Tensor index, index padding_idx, bool scale_grad) -> Tensor",
    name = "embedding", internal = true,
    grad = {weight = "embedding_backward(grad, index, sizes(weight), padding_idx, scale_grad)"}}
op {[[embedding_sparse_rows(Tensor weight, Tensor index, index padding_idx, bool scale_grad)
      -> Tensor]],
    name = "embedding", internal = true, node = "Embedding",
    grad = {weight = [[embedding_sparse_backward(grad, index, sizes(weight), padding_idx,
      scale_grad)]]}}
op {[[embedding_sparse_backward(Tensor grad_output, Tensor index, int[] size, index padding_idx,
      bool scale_grad) -> Tensor]],
    internal = true, composite = true}
op {[[embedding_backward(Tensor grad_output, Tensor index, int[] size, index padding_idx,
      bool scale_grad) -> Tensor]],
    internal = true,
    grad = {grad_output = "embedding_second(grad, index, padding_idx, scale_grad)"}}
op {[[embedding_second(Tensor grad_output, Tensor index, index padding_idx, bool scale_grad)
      -> Tensor]],
    internal = true, composite = true}
F {[[embedding_bag(Tensor input, Tensor weight, Tensor offsets=nil, float max_norm=nil,
      float norm_type=2.0, bool scale_grad_by_freq=false, string mode='mean', bool sparse=false,
      Tensor per_sample_weights=nil, bool include_last_offset=false, index padding_idx=nil)
      -> Tensor]],
   doc = [[Returns the sum, mean or maximum of rows of weight for each bag of positions. Bags are
   the rows of input (B, N), or pieces of input (N), of which offsets gives the first positions.
   With include_last_offset the last offset is the end of the last bag. padding_idx is left out;
   per_sample_weights, for sums, has input's shape.]],
   node = "EmbeddingBag", composite = true,
   waits = "with padding_idx the positions that count are counted",
   examples = {"I(5, 2, 3), T(5, 4)", "I(5, 6), T(5, 2), torch.tensor{1, 3}, {mode = 'sum'}",
               "I(5, 2, 3), T(5, 4), {mode = 'max'}",
               "I(5, 2, 3), T(5, 4), {mode = 'sum', per_sample_weights = T(2, 3)}",
               "I(5, 6), T(5, 2), torch.tensor{1, 3, 7}, "
                  .. "{include_last_offset = true, padding_idx = 1}"}}
