/*
** node.c - the recorded graph as Lua values: nodes (x.grad_fn) and gradient edges. A gradient edge
** is the place that a tensor's gradient flows to: a leaf, or one result of a node. An edge keeps
** the leaf or the node alive, but not the node's results.
*/
#include <string.h>

#include "autograd/graph.h"
#include "lua/args/args.h"
#include "lua/autograd/autograd.h"
#include "lua/tensor/value.h"

#define NODE "torch.Node"
#define EDGE "torch.GradientEdge"

/* ---- nodes ---- */

static tli_Node *check_node(lua_State *L, int index) {
  tli_Node *node = *(tli_Node **)luaL_checkudata(L, index, NODE);
  if (node == NULL) tli_error(L, "the node was finalized: the Lua state is closing");
  return node;
}

tli_Node **tli_push_node_box(lua_State *L) {
  tli_Node **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  luaL_setmetatable(L, NODE);
  tli_note_owner(L);
  return box;
}

/* Pushes a node that a value on the stack keeps alive. */
static void push_node(lua_State *L, tli_Node *node) {
  tli_Node **box = tli_push_node_box(L);
  *box = tli_node_retain(node);
}

static int node_gc(lua_State *L) {
  tli_Node **box = luaL_checkudata(L, 1, NODE);
  tli_Node *node = *box;
  *box = NULL;
  tli_node_release(node);
  return 0;
}

static int node_eq(lua_State *L) {
  lua_pushboolean(L, check_node(L, 1) == check_node(L, 2));
  return 1;
}

static int node_tostring(lua_State *L) {
  char title[80];
  tli_node_title(check_node(L, 1), title, sizeof title);
  lua_pushfstring(L, "<%s>", title);
  return 1;
}

/* Pushes a list with one entry for each input: {node or leaf that receives the gradient, position
** of the input among that node's results}, or {} if the input gets no gradient. */
static void push_next_functions(lua_State *L, const tli_Node *node) {
  lua_createtable(L, node->ninputs, 0);
  for (int i = 0; i < node->ninputs; i++) {
    const tli_Edge *edge = &node->edges[i];
    lua_createtable(L, 2, 0);
    if (edge->node || edge->leaf) {
      if (edge->node)
        push_node(L, edge->node);
      else
        tli_push_tensor(L, tli_retain(edge->leaf));
      lua_rawseti(L, -2, 1);
      lua_pushinteger(L, edge->output + 1);
      lua_rawseti(L, -2, 2);
    }
    lua_rawseti(L, -2, i + 1);
  }
}

/* Pushes a list of the shapes of the node's results. An unknown shape is {}, like that of a 0-d
** result. */
static void push_shapes(lua_State *L, const tli_Node *node) {
  lua_createtable(L, node->noutputs, 0);
  for (int k = 0; k < node->noutputs; k++) {
    const tli_Info *info = &node->infos[k];
    lua_createtable(L, info->defined ? info->ndim : 0, 0);
    for (int d = 0; info->defined && d < info->ndim; d++) {
      lua_pushinteger(L, info->sizes[d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_rawseti(L, -2, k + 1);
  }
}

static int node_index(lua_State *L) {
  const tli_Node *node = check_node(L, 1);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "name") == 0)
    lua_pushstring(L, tli_node_name(node));
  else if (strcmp(key, "next_functions") == 0)
    push_next_functions(L, node);
  else if (strcmp(key, "shapes") == 0)
    push_shapes(L, node);
  else if (strcmp(key, "sequence") == 0)
    lua_pushinteger(L, (lua_Integer)node->sequence);
  else
    lua_pushnil(L);
  return 1;
}

/* ---- gradient edges ---- */

const tli_Edge *tli_to_edge(lua_State *L, int index) {
  const tli_Edge *edge = luaL_testudata(L, index, EDGE);
  return edge && (edge->node || edge->leaf) ? edge : NULL;
}

static const tli_Edge *check_edge(lua_State *L, int index) {
  const tli_Edge *edge = luaL_checkudata(L, index, EDGE);
  if (edge->node == NULL && edge->leaf == NULL)
    tli_error(L, "the gradient edge was finalized: the Lua state is closing");
  return edge;
}

static tli_Edge *push_edge(lua_State *L) {
  tli_Edge *edge = lua_newuserdatauv(L, sizeof *edge, 0);
  *edge = (tli_Edge){NULL, NULL, 0};
  luaL_setmetatable(L, EDGE);
  tli_note_owner(L);
  return edge;
}

static int edge_gc(lua_State *L) {
  tli_edge_release(luaL_checkudata(L, 1, EDGE));
  return 0;
}

static int edge_eq(lua_State *L) {
  const tli_Edge *a = check_edge(L, 1), *b = check_edge(L, 2);
  lua_pushboolean(L, a->node == b->node && a->leaf == b->leaf && a->output == b->output);
  return 1;
}

static int edge_tostring(lua_State *L) {
  const tli_Edge *edge = check_edge(L, 1);
  char title[80] = "AccumulateGrad";
  if (edge->node) tli_node_title(edge->node, title, sizeof title);
  lua_pushfstring(L, "GradientEdge(node=<%s>, output_nr=%d)", title, edge->output + 1);
  return 1;
}

/* Pushes a field of an edge. A field has a name and a position, as in PyTorch's named tuple. */
static int edge_index(lua_State *L) {
  const tli_Edge *edge = check_edge(L, 1);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  lua_Integer at = lua_isinteger(L, 2) ? lua_tointeger(L, 2) : 0;
  if (strcmp(key, "output_nr") == 0 || at == 2)
    lua_pushinteger(L, edge->output + 1);
  else if (strcmp(key, "node") != 0 && at != 1)
    lua_pushnil(L);
  else if (edge->node)
    push_node(L, edge->node);
  else
    tli_push_tensor(L, tli_retain(edge->leaf));
  return 1;
}

static int edge_len(lua_State *L) {
  check_edge(L, 1);
  lua_pushinteger(L, 2);
  return 1;
}

/* _get_gradient_edge(tensor) returns the tensor's gradient edge: the place that its gradient flows
** to. */
static int autograd_get_gradient_edge(lua_State *L) {
  static const char name[] = "autograd.graph.get_gradient_edge";
  tli_check_tensor(L, 1, name);
  tli_Edge *edge = push_edge(L);
  /* reads the tensor again, because a finalizer may have released it while the edge was made */
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  if (!tli_requires_grad(t))
    return tli_error(L, "%s: tensor: expected one that requires a gradient, got one that does not",
                     name);
  return tli_edge_of(t, edge) ? 1 : tli_raise(L);
}

/* _gradient_edge(node, output_nr) returns the edge to a result of a node, or to a leaf. */
static int autograd_gradient_edge(lua_State *L) {
  static const char name[] = "autograd.graph.GradientEdge";
  tli_State *S = tli_state(L);
  lua_settop(L, 2);
  tli_Edge *edge = push_edge(L);
  tli_Node **box = luaL_testudata(L, 1, NODE);
  tl_Tensor *leaf = box == NULL && lua_type(L, 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, 1) : NULL;
  bool is_leaf = leaf && (leaf->flags & TLI_REQUIRES_GRAD);
  if ((box == NULL || *box == NULL) && !is_leaf)
    return tli_error(L, "%s: node: expected a node, such as x.grad_fn, or a leaf, got %s", name,
                     tli_describe(L, S, 1));
  int64_t output, count = is_leaf ? 1 : (*box)->noutputs;
  if (!tli_to_whole(L, 2, &output) || output < 1 || output > count)
    return tli_error(L, "%s: output_nr: expected an integer from 1 to %d, got %s", name, (int)count,
                     tli_describe(L, S, 2));
  if (is_leaf)
    edge->leaf = tli_retain(leaf);
  else
    edge->node = tli_node_retain(*box);
  edge->output = (int)output - 1;
  return 1;
}

/* ---- forward-mode derivatives ---- */

/* _dual_level(open) opens or closes a level of forward-mode differentiation, and returns whether
** one was open before. */
static int autograd_dual_level(lua_State *L) {
  lua_pushboolean(L, tli_set_dual_level(lua_toboolean(L, 1)));
  return 1;
}

/* _tangent_pass(on) starts or ends a pass that computes tangents, and returns whether one was
** running before. */
static int autograd_tangent_pass(lua_State *L) {
  lua_pushboolean(L, tli_set_tangent_pass(lua_toboolean(L, 1)));
  return 1;
}

/* _make_dual(tensor) marks a tensor as a dual tensor, which has a tangent. */
static int autograd_make_dual(lua_State *L) {
  return tli_make_dual(tli_check_tensor(L, 1, "make_dual")) ? 0 : tli_raise(L);
}

void tli_open_nodes(lua_State *L) {
  static const luaL_Reg node[] = {{"__gc", node_gc},
                                  {"__eq", node_eq},
                                  {"__tostring", node_tostring},
                                  {"__index", node_index},
                                  {NULL, NULL}};
  static const luaL_Reg edge[] = {{"__gc", edge_gc},       {"__eq", edge_eq},
                                  {"__index", edge_index}, {"__tostring", edge_tostring},
                                  {"__len", edge_len},     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"_get_gradient_edge", autograd_get_gradient_edge},
                                       {"_gradient_edge", autograd_gradient_edge},
                                       {"_dual_level", autograd_dual_level},
                                       {"_tangent_pass", autograd_tangent_pass},
                                       {"_make_dual", autograd_make_dual},
                                       {NULL, NULL}};
  tli_open_class(L, NODE, node);
  tli_open_class(L, EDGE, edge);
  tli_set_module(L, "autograd", functions);
}
