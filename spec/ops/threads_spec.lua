-- Tests that results and gradients are bitwise equal for every number of threads. The sizes are large enough that each
-- operator splits its work among threads. They are odd, so that the threads' parts differ in size.

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local F = torch.nn.functional
torch.manual_seed(7)

local leaves = {}
local function normal(...)
   leaves[#leaves + 1] = torch.randn({...}):requires_grad_()
   return leaves[#leaves]
end

-- With a sanitizer, large products take minutes. Smaller ones suffice there, because a sanitizer only tests how the
-- threads share the work.
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"
local rows <const>, columns <const> = sanitized and 261 or 517, sanitized and 523 or 1031

local names = {torch = torch, F = F, select = select,
   x = normal(rows, columns), y = normal(rows, columns), line = normal(columns), wide = normal(columns - 1, columns),
   cube = normal(7, 261, 130), vector = normal(700001), scale = normal(12), shift = normal(12),
   images = normal(5, 12, 61, 59), kernel = normal(20, 12, 3, 3), depth = normal(12, 1, 3, 3),
   -- these weights are larger than a cache
   small = normal(9, 240, 7, 5), heavy = normal(280, 240, 3, 3),
   squares = normal(37, 41, 41), tall = normal(37, 53, 29),
   -- attention with fewer heads than threads
   few = normal(1, 1, 261, 30), heads = normal(1, 3, 150, 30), bias = normal(150, 261),
   labels = torch.randint(1, columns + 1, {rows}), ids = torch.randint(1, rows + 1, {6001}),
   places = torch.randint(1, rows + 1, {rows, columns}), mask = torch.randn(rows, columns):gt(0.5),
   zeros = torch.zeros(rows, columns), columns = columns,
}

local families = {
   pointwise = {"x * y + line", "x:exp()", "(x * 2):tanh()", "torch.where(mask, x, y)", "x:t() + y:t()"},
   reductions = {"vector:sum()", "x:sum(1)", "x:sum(2)", "x:mean()", "x:var(1)", "x:var(2)", "vector:std()",
      "vector:norm()", "x:prod(2)", "x:amax(1)", "x:logsumexp(2)", "x:logsumexp(1)"},
   scans = {"x:cumsum(1)", "x:cumsum(2)", "vector:cumsum(1)", "x:cumprod(2)", "x:logcumsumexp(2)"},
   products = {"x:matmul(y:t())", "x:t():matmul(y)", "x:matmul(wide:t())", "wide:matmul(x:t())",
      "cube:matmul(cube:transpose(2, 3))", "wide:matmul(line)", "line:matmul(wide:t())",
      "wide:t():matmul(wide:select(2, 1))", "F.linear(x, wide)",
      "F.linear_relu(wide, x, x:select(2, 1))", "F.linear_gelu(wide, x, x:select(2, 1))",
      "torch.cdist(cube, cube)"},
   ["half products"] = {"x:bfloat16():matmul(y:bfloat16():t())", "x:half():matmul(y:half():t())"},
   convolutions = {"F.conv2d(images, kernel, nil, 1, 1)", "F.conv2d(images, kernel, nil, 2)",
      "F.conv2d(images, depth, nil, 1, 1, 1, 12)", "F.conv_transpose2d(images, kernel:transpose(1, 2))",
      "F.conv2d(images:narrow(1, 1, 1), kernel, nil, 1, 1)", "F.conv2d(small, heavy, nil, 1, 1)"},
   pooling = {"F.max_pool2d(images, 3, 2)", "F.avg_pool2d(images, 3, 2)", "F.adaptive_avg_pool2d(images, 7)",
      "F.interpolate(images, {scale_factor = 2, mode = 'bilinear'})"},
   normalisation = {"F.batch_norm(images, nil, nil, scale, shift, true)", "F.layer_norm(x, {columns}, line, line)",
      "F.group_norm(images, 3, scale, shift)", "F.softmax(x, 2)", "F.softmax(x, 1)", "F.log_softmax(x, 2)"},
   losses = {"F.cross_entropy(x, labels)", "F.mse_loss(x, y)", "F.smooth_l1_loss(x, y)",
      "F.binary_cross_entropy_with_logits(x, y:sigmoid())"},
   positions = {"F.embedding(ids, x)", "x:index_select(1, ids)", "x[mask]", "x:gather(1, places)",
      "zeros:scatter_add(1, places, x)", "zeros:scatter_add(2, places, x)",
      "zeros:index_add(1, ids, y:index_select(1, ids))", "x:masked_fill(mask, 0)"},
   sorting = {"(vector:sort())", "(x:sort(2))", "(x:topk(50, 2))", "(vector:topk(100))", "(x:median(2))"},
   ["linear algebra"] = {"torch.linalg.inv(squares)", "torch.linalg.solve(squares, squares:sin())",
      "torch.linalg.cholesky(squares:matmul(squares:transpose(2, 3)) + torch.eye(41))", "(torch.linalg.qr(tall))",
      "torch.linalg.svdvals(tall)", "(torch.linalg.eigh(squares + squares:transpose(2, 3)))",
      "torch.linalg.det(squares)", "torch.linalg.solve_triangular(squares, squares:sin(), {upper = true})"},
   attention = {"F.scaled_dot_product_attention(cube, cube, cube)",
      "F.scaled_dot_product_attention(few, few, few, {is_causal = true})",
      "select(-1, torch.manual_seed(3), F.scaled_dot_product_attention(few, few, few, {dropout_p = 0.2}))",
      "F.scaled_dot_product_attention(heads, few, few, {enable_gqa = true, attn_mask = bias})",
      "F.scaled_dot_product_attention(heads:bfloat16(), few:bfloat16(), few:bfloat16(), {enable_gqa = true})"},
}

-- Computes the result and all gradients with a given number of threads.
local function run(text, threads)
   torch.set_num_threads(threads)
   for _, leaf in ipairs(leaves) do leaf.grad = nil end
   local result = assert(load("return " .. text, "=" .. text, "t", names))()
   result:backward(torch.linspace(-1, 1, result:numel()):view(result.shape):to(result.dtype))
   local tensors = {result:detach()}
   for _, leaf in ipairs(leaves) do tensors[#tensors + 1] = leaf.grad end
   return tensors
end

local numbers <const> = sanitized and {3} or {2, 3, 4}

describe("the same bits with one thread and with " .. table.concat(numbers, ", ") .. ":", function()
   local before = torch.get_num_threads()
   after_each(function() torch.set_num_threads(before) end)

   for family, texts in sorted(families) do
      it(family, function()
         for _, text in ipairs(texts) do
            local expected = run(text, 1)
            assert.is_true(#expected >= 2, text)
            for _, threads in ipairs(numbers) do
               for i, actual in ipairs(run(text, threads)) do
                  assert.is_true(torch.equal(expected[i], actual), ("%s: tensor %d with %d threads"):format(
                     text, i, threads))
               end
            end
         end
      end)
   end
end)
