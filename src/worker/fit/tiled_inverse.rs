//! Solutions of large symmetric positive definite systems, in square tiles.
//!
//! libtorch computes each tile on one thread, and the tiles of a step are distributed over the threads of the pool,
//! so that the bits do not depend on the number of threads. Only the lower triangle is kept in memory.

use rayon::prelude::*;
use tch::{Device, Kind, TchError, Tensor};

/// The number of rows and columns of a tile.
const TILE: usize = 512;
/// Systems up to this size are computed in f64, where it costs little.
pub(super) const LARGEST_IN_F64: usize = 4096;
/// How many columns are solved for at a time.
const WIDTH: usize = 256;

/// The result of a call to libtorch, which fails if there is no memory or the matrix is not positive definite.
type Result<T> = std::result::Result<T, TchError>;

/// The lower triangle of a matrix, in tiles.
struct LowerTriangle {
    size: usize,
    /// The tiles, row by row.
    tiles: Vec<Tensor>,
}

/// The inverse W of the Cholesky factor of a matrix M, so that M^-1 = W' W.
pub(super) struct InverseFactor {
    factor: LowerTriangle,
    kind: Kind,
    device: Device,
}

/// Returns the first row of a tile.
fn start(tile: usize) -> usize {
    tile * TILE
}

impl LowerTriangle {
    /// Returns the number of rows of tiles.
    fn count(&self) -> usize {
        self.size.div_ceil(TILE)
    }

    /// Returns the index of a tile.
    fn index(row: usize, column: usize) -> usize {
        row * (row + 1) / 2 + column
    }

    /// Returns another handle on a tile. Handles may go to other threads; references may not.
    fn at(&self, row: usize, column: usize) -> Tensor {
        self.tiles[Self::index(row, column)].shallow_clone()
    }

    /// Returns the number of rows of a tile, which is smaller for the last one.
    fn width(&self, tile: usize) -> usize {
        TILE.min(self.size - start(tile))
    }

    /// Builds a matrix. `row` gets the number of a row and its values, which are zero, and fills them in.
    fn build(
        size: usize,
        kind: Kind,
        device: Device,
        row: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<Self> {
        let mut matrix = Self { size, tiles: Vec::new() };
        for tile in 0..matrix.count() {
            let height = matrix.width(tile);
            let mut strip = vec![0f32; height * size];
            let rows = strip.par_chunks_mut(size).enumerate();
            rows.for_each(|(at, values)| row(start(tile) + at, values));
            let strip = Tensor::from_slice(&strip).view([height as i64, size as i64]);
            for column in 0..=tile {
                let part = strip.f_narrow(1, start(column) as i64, matrix.width(column) as i64)?;
                matrix.tiles.push(part.f_contiguous()?.f_to_kind(kind)?.f_to_device(device)?);
            }
        }
        Ok(matrix)
    }

    /// Replaces the matrix by its Cholesky factor.
    fn factor(&mut self) -> Result<()> {
        let count = self.count();
        for step in 0..count {
            let diagonal = self.at(step, step).f_linalg_cholesky(false)?;
            let below: Vec<_> =
                (step + 1..count).map(|row| (self.at(row, step), diagonal.shallow_clone())).collect();
            let below = below.into_par_iter().map(|(tile, diagonal)| {
                diagonal.f_tr()?.f_linalg_solve_triangular(&tile, true, false, false)
            });
            let below = below.collect::<Result<Vec<_>>>()?;
            self.tiles[Self::index(step, step)] = diagonal;
            let mut rest = Vec::new();
            for row in step + 1..count {
                for column in step + 1..=row {
                    let [left, right] = [row, column].map(|at| below[at - step - 1].shallow_clone());
                    rest.push((self.at(row, column), left, right));
                }
            }
            // In place: a second set of tiles would double the memory of the whole fit.
            rest.into_par_iter().try_for_each_init(
                ProductMemory::default,
                |memory, (mut tile, left, right)| {
                    tile.f_sub_(&memory.product(&left, &right.f_tr()?)?).map(drop)
                },
            )?;
            for (row, tile) in (step + 1..count).zip(below) {
                self.tiles[Self::index(row, step)] = tile;
            }
        }
        Ok(())
    }

    /// Replaces a lower triangular matrix by its inverse. Each column of tiles is one task. A column of the inverse does not
    /// depend on the columns of the matrix before it, so that it takes their place.
    fn invert(&mut self) -> Result<()> {
        let count = self.count();
        let columns: Vec<usize> = (0..count).collect();
        for group in columns.chunks(rayon::current_num_threads().max(1)) {
            for (column, inverse) in group.iter().zip(self.inverse_columns(group)?) {
                for (row, tile) in (*column..).zip(inverse) {
                    self.tiles[Self::index(row, *column)] = tile;
                }
            }
        }
        Ok(())
    }

    /// Returns some columns of the inverse, from the diagonal down.
    fn inverse_columns(&self, columns: &[usize]) -> Result<Vec<Vec<Tensor>>> {
        let rows_of = |&column: &usize| -> Vec<Vec<Tensor>> {
            (column..self.count()).map(|row| (column..=row).map(|k| self.at(row, k)).collect()).collect()
        };
        let tasks: Vec<_> = columns.iter().map(rows_of).collect();
        let inverses = tasks.into_par_iter().map(|rows| {
            let mut inverse: Vec<Tensor> = Vec::with_capacity(rows.len());
            let mut memory = ProductMemory::default();
            for row in rows {
                let (Some(diagonal), earlier) = (row.last(), &row[..row.len() - 1]) else { continue };
                let right = match earlier.iter().zip(&inverse).next() {
                    None => Tensor::f_eye(diagonal.size()[0], (diagonal.kind(), diagonal.device()))?,
                    Some((left, above)) => {
                        let mut sum = left.f_mm(above)?;
                        for (left, above) in earlier.iter().zip(&inverse).skip(1) {
                            let _ = sum.f_add_(&memory.product(left, above)?)?;
                        }
                        sum.f_neg_()?
                    }
                };
                inverse.push(diagonal.f_linalg_solve_triangular(&right, false, true, false)?);
            }
            Ok(inverse)
        });
        inverses.collect()
    }
}

impl InverseFactor {
    /// Factorises and inverts a matrix. `row` gets the number of a row and its values, which are zero, and fills them
    /// in.
    pub(super) fn of(size: usize, device: Device, row: impl Fn(usize, &mut [f32]) + Sync) -> Result<Self> {
        let kind = if size <= LARGEST_IN_F64 { Kind::Double } else { Kind::Float };
        let mut matrix = LowerTriangle::build(size, kind, device, row)?;
        matrix.factor()?;
        matrix.invert()?;
        Ok(Self { factor: matrix, kind, device })
    }

    /// Returns the diagonal of M^-1.
    pub(super) fn diagonal(&self) -> Result<Vec<f64>> {
        let mut diagonal = vec![0f64; self.factor.size];
        for column in 0..self.factor.count() {
            for row in column..self.factor.count() {
                let squares = self.factor.at(row, column).f_square()?.f_sum_dim_intlist(
                    [0i64].as_slice(),
                    false,
                    Kind::Double,
                )?;
                let squares = Vec::<f64>::try_from(squares)?;
                let from = &mut diagonal[start(column)..];
                for (sum, square) in from.iter_mut().zip(squares) {
                    *sum += square;
                }
            }
        }
        Ok(diagonal)
    }

    /// Computes M^-1 B for a matrix B of `columns` columns. `fill` writes some columns of B, row-major, into zeros;
    /// `take` gets the same columns of the solution, in order.
    pub(super) fn solve(
        &self,
        columns: usize,
        fill: impl Fn(std::ops::Range<usize>, &mut [f32]) + Sync,
        mut take: impl FnMut(std::ops::Range<usize>, &[f32]),
    ) -> Result<()> {
        let blocks: Vec<_> =
            (0..columns).step_by(WIDTH).map(|first| first..columns.min(first + WIDTH)).collect();
        let at_once = rayon::current_num_threads().max(1);
        for group in blocks.chunks(at_once) {
            let tasks: Vec<_> = group.iter().map(|block| (block.clone(), self.handle())).collect();
            let solved = tasks.into_par_iter().map(|(block, inverse)| {
                let mut right = vec![0f32; inverse.factor.size * block.len()];
                fill(block.clone(), &mut right);
                let product = inverse.multiply(&right, block.len())?;
                Ok((block, inverse.multiply_transposed(&product)?))
            });
            for (block, solution) in solved.collect::<Result<Vec<_>>>()? {
                take(block, &solution);
            }
        }
        Ok(())
    }

    /// Returns b' M^-1 b for each column b. `fill` writes the columns as in [`Self::solve`].
    pub(super) fn quadratic(
        &self,
        columns: usize,
        fill: impl Fn(std::ops::Range<usize>, &mut [f32]) + Sync,
    ) -> Result<Vec<f64>> {
        let blocks = (0..columns).step_by(WIDTH).map(|first| first..columns.min(first + WIDTH));
        let tasks: Vec<_> = blocks.map(|block| (block, self.handle())).collect();
        let values = tasks.into_par_iter().map(|(block, inverse)| {
            let mut right = vec![0f32; inverse.factor.size * block.len()];
            fill(block.clone(), &mut right);
            let mut sums = vec![0f64; block.len()];
            for tile in inverse.multiply(&right, block.len())? {
                let squares = tile.f_square()?.f_sum_dim_intlist([0i64].as_slice(), false, Kind::Double)?;
                let squares = Vec::<f64>::try_from(squares)?;
                for (sum, square) in sums.iter_mut().zip(squares) {
                    *sum += square;
                }
            }
            Ok(sums)
        });
        Ok(values.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Returns another handle on the same matrix, for another thread.
    fn handle(&self) -> Self {
        let tiles = self.factor.tiles.iter().map(Tensor::shallow_clone).collect();
        Self { factor: LowerTriangle { size: self.factor.size, tiles }, kind: self.kind, device: self.device }
    }

    /// Returns W b, tile by tile.
    fn multiply(&self, right: &[f32], width: usize) -> Result<Vec<Tensor>> {
        let right = Tensor::from_slice(right).view([self.factor.size as i64, width as i64]);
        let right = right.f_to_device(self.device)?.f_to_kind(self.kind)?;
        let part = |tile: usize| right.f_narrow(0, start(tile) as i64, self.factor.width(tile) as i64);
        (0..self.factor.count())
            .map(|row| sum((0..=row).map(|column| self.factor.at(row, column).f_mm(&part(column)?))))
            .collect()
    }

    /// Returns W' times the result of [`Self::multiply`], row-major.
    fn multiply_transposed(&self, product: &[Tensor]) -> Result<Vec<f32>> {
        let mut solution = Vec::new();
        for column in 0..self.factor.count() {
            let products = (column..self.factor.count())
                .map(|row| self.factor.at(row, column).f_tr()?.f_mm(&product[row]));
            let tile = sum(products)?.f_to_kind(Kind::Float)?.f_to_device(Device::Cpu)?.f_reshape([-1])?;
            solution.extend(Vec::<f32>::try_from(tile)?);
        }
        Ok(solution)
    }
}

/// Memory for the products of tiles, one after the other.
#[derive(Default)]
struct ProductMemory(Option<Tensor>);

impl ProductMemory {
    /// Returns left · right. The next product overwrites it.
    fn product(&mut self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let size = [left.size()[0], right.size()[1]];
        let memory = match self.0.take().filter(|memory| memory.size() == size) {
            Some(memory) => memory,
            None => Tensor::f_empty(size, (left.kind(), left.device()))?,
        };
        left.f_mm_out(self.0.insert(memory), right)
    }
}

/// Adds at least one tensor, in order.
fn sum(mut parts: impl Iterator<Item = Result<Tensor>>) -> Result<Tensor> {
    let first = parts.next().unwrap_or_else(|| Tensor::f_zeros([0, 0], (Kind::Float, Device::Cpu)));
    parts.try_fold(first?, |sum, part| sum.f_add(&part?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills in row i of the matrix exp(-|i - j| / 50), plus 0.3 on the diagonal.
    fn row(at: usize, values: &mut [f32]) {
        for (column, value) in values.iter_mut().enumerate() {
            *value = (-(at.abs_diff(column) as f32) / 50.0).exp() + if at == column { 0.3 } else { 0.0 };
        }
    }

    /// Returns the largest |M x - b|, where b is the column number + 1 in every 7th row.
    fn residual(size: usize) -> f32 {
        let inverse = InverseFactor::of(size, Device::Cpu, row).unwrap();
        let right = |columns: std::ops::Range<usize>, into: &mut [f32]| {
            for row in (0..size).step_by(7) {
                for (at, column) in columns.clone().enumerate() {
                    into[row * columns.len() + at] = column as f32 + 1.0;
                }
            }
        };
        let mut worst = 0f32;
        inverse
            .solve(3, right, |columns, solution| {
                let mut values = vec![0.0; size];
                for at in 0..size {
                    values.fill(0.0);
                    row(at, &mut values);
                    for (position, column) in columns.clone().enumerate() {
                        let product: f32 =
                            (0..size).map(|k| values[k] * solution[k * columns.len() + position]).sum();
                        let expected = if at % 7 == 0 { column as f32 + 1.0 } else { 0.0 };
                        worst = worst.max((product - expected).abs());
                    }
                }
            })
            .unwrap();
        worst
    }

    #[test]
    fn systems_of_one_tile_and_of_many_are_solved() {
        for size in [1, 5, TILE, TILE + 1, 3 * TILE - 100] {
            let worst = residual(size);
            assert!(worst < 1e-3, "{size}: {worst}");
        }
    }

    #[test]
    fn the_diagonal_and_quadratic_forms_agree_with_the_solution() {
        let size = TILE + 40;
        let inverse = InverseFactor::of(size, Device::Cpu, row).unwrap();
        let unit = |columns: std::ops::Range<usize>, into: &mut [f32]| {
            for (at, column) in columns.clone().enumerate() {
                into[column * columns.len() + at] = 1.0;
            }
        };
        let mut solved = vec![0.0; size];
        inverse
            .solve(size, unit, |columns, solution| {
                for (at, column) in columns.clone().enumerate() {
                    solved[column] = solution[column * columns.len() + at];
                }
            })
            .unwrap();
        let (diagonal, forms) = (inverse.diagonal().unwrap(), inverse.quadratic(size, unit).unwrap());
        for at in 0..size {
            assert!((diagonal[at] - f64::from(solved[at])).abs() < 1e-6, "{at}");
            assert!((diagonal[at] - forms[at]).abs() < 1e-9, "{at}");
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        let diagonal = |threads| {
            let pool = crate::engine::pool::pool(threads).unwrap();
            pool.install(|| InverseFactor::of(2 * TILE + 3, Device::Cpu, row).unwrap().diagonal().unwrap())
        };
        assert!(diagonal(1) == diagonal(3));
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_is_an_error() {
        assert!(InverseFactor::of(2, Device::Cpu, |_, values| values.fill(1.0)).is_err());
    }
}
