/* Ghost exchange as an MPI programmer writes it: persistent requests and derived datatypes, no packing by hand.
 *
 * Every rank has the same block of nx*ny*nz doubles with one ghost layer on every side, x fastest, in a periodic
 * Cartesian grid of px*py*pz ranks. All functions but exchange_field are collective over the communicator.
 */
#include <mpi.h>
#include <stdlib.h>

enum { AXES = 3, SIDES = 2 };

typedef struct {
    MPI_Comm grid;
    int fields, requests;
    double **field;
    MPI_Request *request;
    MPI_Datatype face[AXES][SIDES][2];
} Exchange;

/* The plane of one axis at `at`, without the ghosts of the other two axes. */
static MPI_Datatype face_type(const int cells[AXES], int axis, int at)
{
    int whole[AXES], part[AXES], start[AXES];
    for (int a = 0; a < AXES; a++) {
        whole[a] = cells[a] + 2;
        part[a] = a == axis ? 1 : cells[a];
        start[a] = a == axis ? at : 1;
    }
    MPI_Datatype type;
    MPI_Type_create_subarray(AXES, whole, part, start, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

void exchange_free(Exchange *e)
{
    for (int i = 0; i < e->requests; i++)
        MPI_Request_free(&e->request[i]);
    for (int axis = 0; axis < AXES; axis++)
        for (int side = 0; side < SIDES; side++)
            for (int ghost = 0; ghost < 2; ghost++)
                MPI_Type_free(&e->face[axis][side][ghost]);
    for (int i = 0; i < e->fields; i++)
        free(e->field[i]);
    MPI_Comm_free(&e->grid);
    free(e->field);
    free(e->request);
    free(e);
}

/* Set up the exchange of `fields` arrays; split_faces_only leaves out the axes along which there is one rank. */
Exchange *exchange_create(MPI_Fint communicator, int px, int py, int pz, int nx, int ny, int nz, int fields,
                          int split_faces_only)
{
    const int ranks[AXES] = {px, py, pz}, cells[AXES] = {nx, ny, nz}, periodic[AXES] = {1, 1, 1};
    Exchange *e = calloc(1, sizeof *e);
    MPI_Cart_create(MPI_Comm_f2c(communicator), AXES, ranks, periodic, 0, &e->grid);
    const size_t bytes = sizeof(double) * (nx + 2) * (size_t)(ny + 2) * (nz + 2);
    e->fields = fields;
    e->field = calloc(fields, sizeof *e->field);
    e->request = calloc((size_t)fields * AXES * SIDES * 2, sizeof *e->request);
    for (int i = 0; i < fields; i++) {
        e->field[i] = malloc(bytes);
        for (size_t j = 0; j < bytes / sizeof(double); j++)
            e->field[i][j] = 0.0;
    }
    for (int axis = 0; axis < AXES; axis++)
        for (int side = 0; side < SIDES; side++) {
            e->face[axis][side][0] = face_type(cells, axis, side ? cells[axis] : 1);
            e->face[axis][side][1] = face_type(cells, axis, side ? cells[axis] + 1 : 0);
        }
    for (int i = 0; i < fields; i++)
        for (int axis = 0; axis < AXES; axis++) {
            if (split_faces_only && ranks[axis] == 1)
                continue;
            int neighbour[SIDES];
            MPI_Cart_shift(e->grid, axis, 1, &neighbour[0], &neighbour[1]);
            for (int side = 0; side < SIDES; side++) {
                /* The tag names the direction of travel: both sides may have the same neighbour. */
                const int field_tag = (i * AXES + axis) * SIDES;
                MPI_Recv_init(e->field[i], 1, e->face[axis][side][1], neighbour[side], field_tag + !side, e->grid,
                              &e->request[e->requests++]);
                MPI_Send_init(e->field[i], 1, e->face[axis][side][0], neighbour[side], field_tag + side, e->grid,
                              &e->request[e->requests++]);
            }
        }
    return e;
}

/* The memory of one field, ghosts included. */
double *exchange_field(Exchange *e, int field)
{
    return e->field[field];
}

/* Exchange the ghosts of all fields `iterations` times; return the seconds on this rank. */
double exchange_run(Exchange *e, int iterations)
{
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; i++) {
        MPI_Startall(e->requests, e->request);
        MPI_Waitall(e->requests, e->request, MPI_STATUSES_IGNORE);
    }
    return MPI_Wtime() - start;
}
